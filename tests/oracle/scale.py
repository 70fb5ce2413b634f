"""Plays a program in other units of time, so that it spans the segments in which stores expire what is old.

Called by the tests of this folder.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

from vocabulary import Program, Step

_TIMES = {"ts", "size", "advance", "gap", "grace", "before", "after", "retention", "time_limit", "versioned", "start"}
_WINDOWED = re.compile(r"(time_windowed\([^,()]*),(\d+)\)")


def scaled(program: Program, seed: int) -> Program:
    """The program with every time by record multiplied, and perhaps so late that it is of today. The wall clock stays.

    A cogroup has no changelog: its streams do not know each other's time. So a stream writes records that are too old
    for the store, and Kafka Streams logs them all the same (docs/departures.md).
    """
    random = Random(seed)
    factor = random.choice([997, 10_007, 60_000, 3_600_000, 5_000_011])
    begin = random.choice([0, 1_700_000_000_000, 1_700_000_000_123])
    steps = [_scaled(step, factor) for step in program["steps"]]
    if any(step["op"] == "cogroup" for step in steps):
        for step in steps:
            if step["op"] == "aggregate" and "fn" not in step:
                step.setdefault("materialized", {})["logging"] = False
    return {**program, "steps": steps, "events": [_later(event, factor, begin) for event in program["events"]]}


def _later(event: Step, factor: int, begin: int) -> Step:
    return {**event, "ts": begin + event["ts"] * factor} if "ts" in event else event


def _scaled(part: Any, factor: int) -> Any:
    if isinstance(part, dict):
        return {
            name: value * factor if name in _TIMES and isinstance(value, int) else _scaled(value, factor)
            for name, value in part.items()
        }
    if isinstance(part, list):
        return [_scaled(each, factor) for each in part]
    if isinstance(part, str):
        return _WINDOWED.sub(lambda found: f"{found[1]},{int(found[2]) * factor})", part)
    return part
