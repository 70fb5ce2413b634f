"""Rules of the tree that no other tool checks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

#: A user's or a build machine's own folders, without folders that a program may rely on anywhere (/usr, /proc, ...).
MACHINE_PATH = re.compile(r"(?<![\w.$}>~-])/(?:root|work|home/\w+|Users/\w+|tmp/(?!streamsapp)\w+)(?:/|\b)")


#: The folders that a build or a test leaves in a tree.
MADE = {"__pycache__", "dist", "build"}


def committed_files() -> Iterator[Path]:
    """Every file of the tree but for hidden folders (git's, an environment, caches) and what is made there."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in MADE and (name == ".ci" or not name.startswith("."))]
        # .git: a file in a second work tree; the compiled part says where it was compiled
        yield from (Path(folder, name) for name in names if name != ".git" and not name.endswith(".so"))


def test_the_standard_librarys_operator_is_imported_at_the_root_of_the_tree() -> None:
    program = "import operator, collections; print(operator.__file__)"
    answer = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert Path(answer.stdout.strip()).parent == Path(re.__file__).parents[1]


@pytest.mark.parametrize("folder", ["operator", "runtime"])
def test_a_folder_that_would_shadow_a_module_is_no_package(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists()


def test_no_folder_of_tests_is_a_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_no_committed_file_names_a_path_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in committed_files()
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]

    assert found == []


@pytest.mark.parametrize("folder", ["work/main", "root/x", "home/jane/src", "Users/jane", "tmp/probe/bin"])
def test_a_path_of_one_machine_is_recognised(folder: str) -> None:
    assert MACHINE_PATH.search(f"cd /{folder}")
    assert MACHINE_PATH.search(f"open('/{folder}')")


@pytest.mark.parametrize("line", ["runtime/work/x", "$HOME/work", "https://kafka.example/work", "/usr/bin", "a /tmp b"])
def test_other_paths_are_let_pass(line: str) -> None:
    assert not MACHINE_PATH.search(line)
