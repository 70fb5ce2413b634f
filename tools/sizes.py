"""Keeps files and functions small enough to be read in one sitting.

Run by ``make check``: lists what is larger than usual, fails on what is larger than allowed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("runtime", "operator", "spark", "tools", "examples", "benchmarks", "tests")


class Limit(NamedTuple):
    """Above ``usual`` a thing is listed, above ``most`` the check fails."""

    usual: int
    most: int


FILE = Limit(usual=400, most=500)
FUNCTION = Limit(usual=50, most=70)


class Size(NamedTuple):
    """One file or function and how many lines it has."""

    lines: int
    limit: Limit
    where: str

    @property
    def too_large(self) -> bool:
        return self.lines > self.limit.most


def sizes_of(source: str, where: str) -> Iterator[Size]:
    """The size of a file and of every function in it."""
    yield Size(source.count("\n"), FILE, where)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Size(lines, FUNCTION, f"{where}:{node.lineno} {node.name}")


def main() -> int:
    """Exit code 1 when anything is too large."""
    files = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    sizes = [size for path in files for size in sizes_of(path.read_text("utf-8"), str(path.relative_to(ROOT)))]
    listed = sorted((size for size in sizes if size.lines > size.limit.usual), reverse=True)
    for size in listed:
        remark = f"too large: at most {size.limit.most}" if size.too_large else "large"
        print(f"{size.where}: {size.lines} lines, {remark}")
    return int(any(size.too_large for size in listed))


if __name__ == "__main__":
    sys.exit(main())
