"""Trees of the runtime beside this one, with another compiled part than this one's or with none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_COMPILE = (
    "import sys; from pathlib import Path; from hatch_build import compile_module; "
    "compile_module(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])"
)


def tree_without_compiled_part(folder: Path) -> Path:
    """Returns what ``PYTHONPATH`` is to be for programs that take the runtime from there."""
    tree = folder / "runtime"
    shutil.copytree(ROOT / "runtime", tree, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return tree


def tree_compiled_with(folder: Path, *flags: str) -> Path:
    """The same with a compiled part that is made with further flags."""
    tree = tree_without_compiled_part(folder)
    command = [sys.executable, "-c", _COMPILE, str(ROOT), str(tree), *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return tree


def run_in_tree(tree: Path, program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
