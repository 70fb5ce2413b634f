"""The progress of a sink, as ``/status`` and metrics show it. Plain data, made on the driver's main thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SinkFigures:
    """One sink."""

    name: str
    topic: str
    format: str
    #: Its name in a catalog, or its folder.
    table: str
    #: Batches that this driver has added, and when the last one was, in milliseconds since 1970.
    batches: int
    added_at_ms: int | None
    #: When the topic was last looked at, as Spark writes times.
    looked_at: str | None
    #: By partition of the topic: records before it are in the table, or in the batch under way.
    offsets: Mapping[str, int]
