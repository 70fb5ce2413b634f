"""Keeps the C of the runtime in order: its layout, no warning of the compiler, nothing that an analyser finds.

Run by ``make check``; ``--format`` lays the files out instead. ``CC`` names another compiler than the machine's; each
of gcc and clang has to find nothing.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import compiler
from streamsapp.cache_folder import cache_dir

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "runtime" / "streamsapp" / "native"
PROGRAMS = Path(sys.executable).parent
#: Python's interface says which parameters a function has, also where it needs none of them.
WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Wshadow",
    "-Wconversion",
    "-Wpointer-arith",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Werror",
)
LANGUAGE = ("-std=c11", "-D_GNU_SOURCE", "-DPY_SSIZE_T_CLEAN", f"-I{NATIVE}")


def formatting(files: list[Path], *, change: bool) -> list[str]:
    how = ["-i"] if change else ["--dry-run", "-Werror"]
    return [str(PROGRAMS / "clang-format"), *how, *map(str, files)]


def warnings_of(source: Path) -> list[str]:
    """The command that compiles a file, whose output is not kept. It optimises, as some faults are found by that."""
    headers = ("-isystem", sysconfig.get_path("include"), *shlex.split(os.environ.get("CFLAGS", "")))
    return [*shlex.split(os.environ["CC"]), *LANGUAGE, *WARNINGS, *headers, "-O2", "-c", str(source), "-o", os.devnull]


def analysis() -> list[str]:
    """The command that looks for what no compiler looks for, in all files at once."""
    chosen = ("--enable=warning,performance,portability", "--library=python", "--std=c11", "--inline-suppr")
    return [str(PROGRAMS / "cppcheck"), "--quiet", "--error-exitcode=1", "-j2", *chosen, f"-I{NATIVE}", str(NATIVE)]


def main() -> int:
    """Exit code 1 when anything is found."""
    files = sorted(NATIVE.rglob("*.[ch]"))
    if "--format" in sys.argv:
        return subprocess.run(formatting(files, change=True), check=False).returncode
    os.environ.update(compiler.settings(Path(sys.executable), cache_dir()))
    commands = [
        formatting(files, change=False),
        analysis(),
        *(warnings_of(path) for path in files if path.suffix == ".c"),
    ]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        ended = list(
            workers.map(lambda command: subprocess.run(command, capture_output=True, text=True, check=False), commands)
        )
    for each in ended:
        if each.returncode:
            print(each.stdout + each.stderr, end="")
    return int(any(each.returncode for each in ended))


if __name__ == "__main__":
    sys.exit(main())
