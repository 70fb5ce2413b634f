"""Keeps files and functions small enough to be read in one sitting.

Run by ``make check``: lists what is larger than usual, fails on anything larger than allowed.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
#: Tests put whole instances together, fakes and all: their classes are not counted.
TESTS = "tests"
ROOMS = ("runtime", "operator", "spark", "tools", "examples", "benchmarks", TESTS)


class Limit(NamedTuple):
    """Above ``usual`` a thing is listed, above ``most`` the check fails."""

    usual: int
    most: int


FILE = Limit(usual=400, most=500)
FUNCTION = Limit(usual=50, most=70)
#: A class that is made of more, or remembers more, does more than one thing.
PARAMETERS = Limit(usual=7, most=7)
ATTRIBUTES = Limit(usual=15, most=15)

#: Classes above these limits, each with how many parameters and attributes it has at most. Nothing is added here; a
#: change that makes one of them smaller takes it off.
LARGE_CLASSES = {
    # On the way of every record: what a record needs is looked up once and bound here.
    "StreamTask": (5, 20),
}


class Size(NamedTuple):
    """One file, function or class, and how much of ``unit`` it has."""

    number: int
    limit: Limit
    where: str
    unit: str = "lines"

    @property
    def too_large(self) -> bool:
        return self.number > self.limit.most


def sizes_of(source: str, where: str) -> Iterator[Size]:
    """The size of a file and of every function and class in it."""
    yield Size(source.count("\n"), FILE, where)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Size(lines, FUNCTION, f"{where}:{node.lineno} {node.name}")
        elif isinstance(node, ast.ClassDef) and not where.startswith(TESTS):
            yield from _sizes_of_class(node, f"{where}:{node.lineno} {node.name}")


def sizes_of_c(source: str, where: str) -> Iterator[Size]:
    """The size of a file in C and of every function in it, as clang-format lays them out: a function of more than a
    line begins and ends without an indent."""
    yield Size(source.count("\n"), FILE, where)
    for found in re.finditer(r"^[a-zA-Z_][^;{}]*?(\w+)\([^;{}]*\) \{\n.*?^\}", source, re.MULTILINE | re.DOTALL):
        line = source.count("\n", 0, found.start()) + 1
        yield Size(found[0].count("\n") + 1, FUNCTION, f"{where}:{line} {found[1]}")


def _sizes_of_class(node: ast.ClassDef, where: str) -> Iterator[Size]:
    parameters, attributes = PARAMETERS, ATTRIBUTES
    if node.name in LARGE_CLASSES:
        parameters, attributes = (
            Limit(usual=max(limit.usual, known), most=max(limit.most, known))
            for limit, known in zip((PARAMETERS, ATTRIBUTES), LARGE_CLASSES[node.name], strict=True)
        )
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    # An overload is a type of the constructor, as the fields of a dataclass are.
    made_by = [each for each in methods if each.name == "__init__" and not each.decorator_list]
    for made in (each.args for each in made_by):
        count = len(made.posonlyargs) + len(made.args) + len(made.kwonlyargs) - 1
        yield Size(count, parameters, where, "constructor parameters")
    yield Size(len({name for each in methods for name in _set_on_self(each)}), attributes, where, "attributes")


def _set_on_self(method: ast.AST) -> Iterator[str]:
    for node in ast.walk(method):
        if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
            continue
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


def main() -> int:
    """Exit code 1 when anything is too large."""
    sizes = [
        size
        for pattern, measured in (("*.py", sizes_of), ("*.[ch]", sizes_of_c))
        for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob(pattern))
        for size in measured(path.read_text("utf-8"), str(path.relative_to(ROOT)))
    ]
    listed = sorted((size for size in sizes if size.number > size.limit.usual), reverse=True)
    for size in listed:
        remark = f"too large: at most {size.limit.most}" if size.too_large else "large"
        print(f"{size.where}: {size.number} {size.unit}, {remark}")
    return int(any(size.too_large for size in listed))


if __name__ == "__main__":
    sys.exit(main())
