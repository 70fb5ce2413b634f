"""Prints the interpreter that runs it, if it is new enough and can make environments and compile extensions; otherwise
ends with 1. The Makefile asks the distribution's Python, which comes in several packages."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path

OLDEST = (3, 11)


def is_complete() -> bool:
    """Says whether it will do as it is."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return sys.version_info >= OLDEST and importlib.util.find_spec("ensurepip") is not None and headers.exists()


if __name__ == "__main__":
    if not is_complete():
        sys.exit(1)
    print(sys.executable)
