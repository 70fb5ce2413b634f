"""Runs one workload on streamsapp until it is asked to end, and does nothing besides.

Started by ``paced.py``, which measures this process from outside while records come at a fixed pace, or none at all.
"""

from __future__ import annotations

import sys

from benchmarks.systems.job import Job
from benchmarks.systems.streamsapp_app import CLOSE_SECONDS, started


def main() -> None:
    runtime = started(Job.from_command_line())
    sys.stdin.read()
    runtime.close(CLOSE_SECONDS)


if __name__ == "__main__":
    main()
