"""How modules introduce themselves."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
QUESTION = r"(What|Who|Whose|Where|Which|Whether|How|When|For how)\b"
PACKAGES = ("operator/streamsapp_operator", "spark/streamsapp_spark", "runtime/streamsapp")
#: Rooms of the runtime whose modules all say what they are.
ROOMS = (
    "cli", "config", "http", "kafka", "local", "manifest", "membership", "metrics", "processor", "query", "remote",
    "runtime", "serdes", "supervisor", "tasks", "topology",
)  # fmt: skip
#: Rooms in which several threads meet.
THREADED = ("kafka", "membership", "runtime", "tasks")


def test_a_module_says_what_it_is_and_does_not_begin_with_a_bare_question_word() -> None:
    found = []
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        room = path.relative_to(ROOT).parts[2]
        if path.is_relative_to(ROOT / "runtime") and room not in ROOMS:
            continue
        header = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        if re.match(QUESTION, header):
            found.append(str(path.relative_to(ROOT)))

    assert found == []


@pytest.mark.parametrize("room", THREADED)
def test_a_module_says_on_which_thread_it_runs(room: str) -> None:
    silent = []
    for path in sorted((ROOT / "runtime/streamsapp" / room).rglob("*.py")):
        source = path.read_text("utf-8")
        if source and not re.search(r"\bthreads?\b", ast.get_docstring(ast.parse(source)) or ""):
            silent.append(str(path.relative_to(ROOT)))

    assert silent == []


@pytest.mark.parametrize("room", THREADED)
def test_docstrings_do_not_begin_with_a_bare_question_word(room: str) -> None:
    found = []
    for path in sorted((ROOT / "runtime/streamsapp" / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if re.match(QUESTION, text):
                    found.append(f"{path.relative_to(ROOT)}: {node.name}")

    assert found == []


@pytest.mark.parametrize("room", THREADED)
def test_comments_do_not_begin_with_a_bare_question_word(room: str) -> None:
    found = []
    for path in sorted((ROOT / "runtime/streamsapp" / room).rglob("*.py")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if re.search(r"(^|  )\s*#:? (What|Who|Whose|Where|When)\b", line):
                found.append(f"{path.relative_to(ROOT)}:{number}")

    assert found == []
