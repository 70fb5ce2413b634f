"""The records of a program of the oracle's, for engines that do not process them one by one.

Called by the unit tests of the Spark part.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from compare import Program, _decoded, _headers
from options import serde
from streamsapp import TopicPartition
from streamsapp.record import RawRecord


def in_order(program: Program) -> Program:
    """Returns it with records in the order of time, and no wall-clock time between them."""
    records = [event for event in program["events"] if "advance" not in event]
    for number, event in enumerate(records):
        event["ts"] = 1_000 + 10 * number
    return {**program, "events": records}


def records_of(program: Program) -> dict[TopicPartition, list[RawRecord]]:
    """Returns the records of each topic, all in one partition."""
    found: defaultdict[TopicPartition, list[RawRecord]] = defaultdict(list)
    for event in program["events"]:
        partition = TopicPartition(event["topic"], 0)
        of = program["inputs"][event["topic"]]
        key, value = (_bytes(event, side, of) for side in ("key", "value"))
        found[partition].append(RawRecord(*partition, len(found[partition]), key, value, event["ts"], _headers(event)))
    return dict(found)


def _bytes(event: dict[str, Any], side: str, of: dict[str, str]) -> bytes | None:
    if f"{side}_raw" in event:
        return _decoded(event[f"{side}_raw"])
    value = event[side]
    return None if value is None else serde(of[side]).serialize(value)
