"""How modules introduce themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("operator/streamsapp_operator", "spark/streamsapp_spark", "runtime/streamsapp")

#: The folders in which neither a docstring nor a comment may begin with a bare What, Who or Whether.
FOLDERS = ("runtime", "operator", "spark", "tests", "benchmarks", "tools", "charts")
FRAGMENT = re.compile(r"(What|Who|Whose|Where|Which|Whether|How|When|Why|For how)\b")
#: A module says which thread runs it, in which process it runs, or that it is only values and functions.
PLACE = re.compile(
    r"\b[Tt]hreads?\b|\b[Pp]ure\b|\b[Pp]lain (immutable )?data\b|\bevent loop\b|\bdriver\b|\bPython workers?\b"
)


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            # Templates are the beginning of a user's own code.
            if path.name != "__init__.py" and "templates" not in path.parts:
                yield path


def headers() -> Iterator[tuple[Path, str]]:
    for path in modules():
        yield path.relative_to(ROOT), ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def test_a_module_says_what_it_is_and_does_not_begin_with_a_bare_question_word() -> None:
    assert [str(path) for path, header in headers() if not header or FRAGMENT.match(header)] == []


def test_a_module_says_on_which_thread_or_in_which_process_it_runs() -> None:
    assert [str(path) for path, header in headers() if not PLACE.search(header)] == []


def test_no_docstring_begins_with_a_bare_question_word() -> None:
    found = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                found += [f"{path.relative_to(ROOT)}:{node.lineno}: {text}"] if FRAGMENT.match(text) else []

    assert found == []


def test_no_docstring_or_comment_begins_with_a_bare_what_who_or_whether() -> None:
    bare = re.compile(r'^\s*(?:[^\s"]+ = )?(?:"""|#:? )(?:What|Who|Whether) (?!.*\?)')
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    found = []
    for path in paths:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            found += [f"{path.relative_to(ROOT)}:{number}: {line.strip()}"] if bare.match(line) else []

    assert found == []
