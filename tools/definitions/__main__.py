"""Makes what repeats a definition, or checks that it is made of the definitions as they are.

Run by ``make definitions`` after a definition was changed, and by ``make check`` with ``--check``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Each imports what those before it make.
MODULES = ("sections", "resource", "pages")


def made(module: str) -> Iterator[tuple[Path, str]]:
    """Returns the files that a module makes, each with its text."""
    for path, text in import_module(f"definitions.{module}").files(ROOT):
        yield ROOT / path, _laid_out(path, text) if path.endswith(".py") else text


def _laid_out(path: str, text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", path, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 if a file is not what the definitions make of it."""
    old = []
    for module in MODULES:
        for path, text in made(module):
            if path.read_text("utf-8") != text if path.exists() else True:
                old.append(path)
                if "--check" not in arguments:
                    path.write_text(text, "utf-8")
    for path in old:
        print(f"{path.relative_to(ROOT)} {'is not as defined; run make definitions' if '--check' in arguments else ''}")
    return 1 if old and "--check" in arguments else 0


sys.exit(main(sys.argv[1:]))
