"""The tasks that wait for each other in stream time, as ``/status`` and metrics show them.

Called on the HTTP server's threads and by the application, at any time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from streamsapp.metrics.samples import Sample, gauge
from streamsapp.runtime.alignment_watch import AlignmentWatch
from streamsapp.tasks.alignment import AlignedTasks, TimeAlignment, TimePlace

#: So many partitions are named.
_MOST = 20


def document(alignment: TimeAlignment) -> list[dict[str, Any]]:
    """Every group of tasks: whether they are aligned now, how far apart they are, who waits, and for whom."""
    return [_group(tasks, alignment.watch) for tasks in alignment.groups]


def _group(tasks: AlignedTasks, watch: AlignmentWatch | None) -> dict[str, Any]:
    places = tasks.places
    elsewhere = [] if watch is None else watch.waited_for(tasks)
    left_out = [] if watch is None else watch.standing_still(tasks)
    return {
        "subTopologies": sorted(tasks.group.sub_topologies),
        "maxSkewMs": tasks.group.most_ahead_ms,
        "aligning": tasks.aligning,
        "skewMs": skew_ms(places),
        "heldTasks": sorted(str(place.task.id) for place in places if place.waits),
        "waitsFor": list(map(str, elsewhere[:_MOST])),
        "leftOut": [str(place.task.id) for place in places if place.left_out] + list(map(str, left_out[:_MOST])),
    }


def skew_ms(places: list[TimePlace]) -> int | None:
    """The time between the next records of the tasks here that are furthest apart; ``None``: fewer than two have a next
    record that is known."""
    times = [place.time for place in places if math.isfinite(place.time)]
    return int(max(times) - min(times)) if len(times) > 1 else None


def samples(alignment: TimeAlignment, **tags: str) -> Iterator[Sample]:
    """Of an instance with such tasks: how far they are apart, and how many wait."""
    if not alignment.groups:
        return
    groups = [tasks.places for tasks in alignment.groups]
    skew = max((skew_ms(places) or 0 for places in groups), default=0)
    yield gauge("stream-thread-metrics", "stream-time-skew-ms", skew, **tags)
    yield gauge("stream-thread-metrics", "held-tasks", sum(place.waits for it in groups for place in it), **tags)
