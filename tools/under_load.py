"""Runs a command beside processes that do nothing but keep the cores busy: ``under_load.py 2 command arguments``.

Run by ``make test-long LOAD=2``: what holds only on a quiet machine fails there. The exit code is the command's.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys


def main() -> int:
    processes = [multiprocessing.Process(target=spin, daemon=True) for _ in range(int(sys.argv[1]))]
    for process in processes:
        process.start()
    try:
        return subprocess.run(sys.argv[2:], check=False).returncode
    finally:
        for process in processes:
            process.terminate()


def spin() -> None:
    """Keeps one core busy until the process is ended."""
    while True:
        sum(range(10_000))


if __name__ == "__main__":
    sys.exit(main())
