"""Python's objects lie in large pages in a process that runs an instance, and their memory goes back to the system."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

pytestmark = pytest.mark.skipif(not LARGE_PAGES.exists(), reason="this system has no transparent large pages")


def run(program: str, before: str = "") -> str:
    """Returns what a process of its own prints, whose arenas are large after what is to come before."""
    loading = "from streamsapp import native\nnative.take_large_arenas()\nnative.take_large_arenas()\n"
    done = subprocess.run(
        [sys.executable, "-c", before + loading + program], check=True, capture_output=True, text=True
    )
    return done.stdout


def flags_at(address: int, maps: str) -> list[str]:
    """Returns the flags of the memory there, which say what the system is asked to do with it."""
    for begin, end, rest in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) ((?:.*\n)*?)(?=^[0-9a-f]+-|\Z)", maps, re.MULTILINE):
        if int(begin, 16) <= address < int(end, 16):
            [flags] = re.findall(r"^VmFlags: (.*)$", rest, re.MULTILINE)
            return str(flags).split()
    raise AssertionError(f"{address:x} is nobody's")


def test_new_objects_lie_in_large_pages() -> None:
    printed = run(
        "objects = [b'%d' % number for number in range(200_000)]\n"
        "print(id(objects[-1]), open('/proc/self/smaps').read(), sep='\\n')"
    )
    address, _, maps = printed.partition("\n")
    assert "hg" in flags_at(int(address), maps)


def test_memory_goes_back_to_the_system_in_any_order() -> None:
    printed = run(
        "import gc, random\n"
        "def resident():\n"
        "    return int(open('/proc/self/statm').read().split()[1]) * 4096 >> 20\n"
        "random.seed(1)\n"
        "most = []\n"
        "for _ in range(5):\n"
        "    objects = [bytes(100) + b'%d' % number for number in range(600_000)]\n"
        "    most.append(resident())\n"
        "    random.shuffle(objects)\n"
        "    del objects[1000:]\n"
        "    del objects\n"
        "    gc.collect()\n"
        "    print(resident(), most[-1])\n"
    )
    rounds = [tuple(map(int, line.split())) for line in printed.splitlines()]
    for least, most in rounds:
        assert least < most - 50
    assert rounds[-1][1] < rounds[0][1] + 20, "it is used again"


def test_objects_of_before_and_of_forked_processes_are_freed() -> None:
    program = (
        "import os\n"
        "objects = [b'%d' % number for number in range(300_000)]\n"
        "child = os.fork()\n"
        "more = [b'%d' % number for number in range(300_000)]\n"
        "assert more == objects\n"
        "del objects, more\n"
        "if child:\n"
        "    print(os.waitpid(child, 0)[1])\n"
    )
    before = "kept = [bytes(100) + b'%d' % number for number in range(100_000)]\n"
    assert run("del kept\n" + program, before).split() == ["0"]


@pytest.mark.parametrize("imported", ["streamsapp.native", "streamsapp.testing", "streamsapp.runtime.instance"])
def test_whoever_imports_keeps_its_own_arenas(imported: str) -> None:
    """They are another program's, such as a test or a web server."""
    program = (
        f"import {imported}\n"
        "objects = [b'%d' % number for number in range(200_000)]\n"
        "print(id(objects[-1]), open('/proc/self/smaps').read(), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    address, _, maps = done.stdout.partition("\n")
    assert "hg" not in flags_at(int(address), maps)
