"""Remote state as it is seen from outside: its part of ``/status`` and of the metrics.

Called on the HTTP server's threads: reads what the snapshot threads publish as plain attributes, waits for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from streamsapp.clock import Clock
from streamsapp.metrics.samples import Sample, counter, gauge
from streamsapp.record import TaskId
from streamsapp.remote.snapshot import Snapshot, milliseconds, timestamp
from streamsapp.runtime.remote_state.components import RemoteState
from streamsapp.runtime.remote_state.task_snapshots import TaskSnapshots
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask

_GROUP = "stream-task-metrics"


class KnownSnapshot(NamedTuple):
    """The newest snapshot that is known here."""

    snapshot: Snapshot
    #: The last time at which it was known to be the task's current state; unchanged state does not age.
    confirmed_at: str | None


def newest_snapshot(remote: RemoteState, task: StreamTask) -> KnownSnapshot | None:
    """An active task writes them, any other may have begun with one."""
    written = remote.snapshots.of(task.id) if task.role is TaskRole.ACTIVE else None
    if written is not None and (last := written.last) is not None:
        at_ms = written.fresh_at_ms
        return KnownSnapshot(last, None if at_ms is None else timestamp(at_ms))
    begun = remote.restores.snapshots.get(task.id)
    return None if begun is None else KnownSnapshot(begun, None)


def store_snapshot(known: KnownSnapshot | None, store: str) -> dict[str, Any] | None:
    """One store's part of a snapshot."""
    if known is None or (point := known.snapshot.stores.get(store)) is None:
        return None
    return {
        "epoch": known.snapshot.epoch,
        "offset": point.offset,
        "createdAt": known.snapshot.created_at,
        "confirmedAt": known.confirmed_at,
    }


def restore_figures(remote: RemoteState, task: StreamTask, known: KnownSnapshot | None) -> dict[str, Any]:
    """The time to restore a task elsewhere, with an empty disk, and the time it took here; not known is ``None``."""
    timing = remote.restores.timings.get(task.id)
    figures: dict[str, Any] = {"predictedSeconds": _rounded(_predicted(remote, task, known))}
    if timing is not None:
        figures["downloadSeconds"] = _rounded(timing.download_seconds)
        figures["observedSeconds"] = _rounded(timing.observed_seconds)
        figures["downloadedBytes"] = timing.moved_bytes
        figures["totalBytes"] = timing.total_bytes
    if (early := remote.restores.early.reads.get(task.id)) is not None:
        figures["missingBytes"] = early.files.missing_bytes
        figures["requests"] = early.files.requests
        figures["readsThatWaited"] = early.files.reads
    return figures


def _predicted(remote: RemoteState, task: StreamTask, known: KnownSnapshot | None) -> float | None:
    """The task's position decides, so a replica's is not known before it has read anything."""
    positions = [task.changelog_positions.get(store) for store in task.plan.all_changelogs]
    if None in positions:
        return None
    points = {} if known is None else known.snapshot.stores
    begun = sum(point.offset for store, point in points.items() if store in task.plan.all_changelogs)
    records = sum(position for position in positions if position is not None) - begun
    return remote.rates.predict(0 if known is None else known.snapshot.total_bytes, max(0, records))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def request_figures(remote: RemoteState, clock: Clock) -> dict[str, Any] | None:
    """The requests to the object store since the start; ``None`` where it is a folder."""
    if (figures := remote.requests) is None:
        return None
    at = figures.throttled_at
    return {
        "requests": dict(figures.requests),
        "throttled": figures.throttled,
        "throttledAt": None if at is None else timestamp(clock.now_ms() - int(1000 * (time.monotonic() - at))),
    }


def samples(remote: RemoteState, now_ms: int) -> Iterator[Sample]:
    """All measurements of remote state."""
    for task_id, it in remote.snapshots.tasks.items():
        yield from _task_samples(task_id, it, now_ms)
    if (figures := remote.requests) is not None:
        for verb, number in dict(figures.requests).items():
            yield counter("stream-metrics", "object-store-requests", number, operation=verb)
        yield counter("stream-metrics", "object-store-throttled-requests", figures.throttled)
    yield counter("stream-metrics", "snapshot-downloaded-bytes", remote.restores.bytes_downloaded)
    for name, rate in (("bytes", remote.rates.download), ("records", remote.rates.replay)):
        if (per_second := rate.per_second) is not None:
            yield gauge("stream-metrics", f"restore-{name}-rate", per_second)
    for task_id, timing in list(remote.restores.timings.items()):
        for name, seconds in (("predicted", timing.predicted), ("observed", timing.observed_seconds)):
            if seconds is not None:
                yield gauge(_GROUP, f"restore-{name}-seconds", seconds, task_id=str(task_id))
    for task_id, early in list(remote.restores.early.reads.items()):
        yield gauge(_GROUP, "snapshot-missing-bytes", early.files.missing_bytes, task_id=str(task_id))
        yield counter(_GROUP, "snapshot-requests", early.files.requests, task_id=str(task_id))
        yield counter(_GROUP, "snapshot-waiting-reads", early.files.reads, task_id=str(task_id))


def _task_samples(task_id: TaskId, it: TaskSnapshots, now_ms: int) -> Iterator[Sample]:
    tags = {"task_id": str(task_id)}
    figures = it.figures
    yield counter(_GROUP, "snapshot", figures.published, **tags)
    yield counter(_GROUP, "snapshot-unchanged", figures.unchanged, **tags)
    yield counter(_GROUP, "snapshot-failures", figures.failures, **tags)
    yield counter(_GROUP, "snapshot-uploaded-bytes", figures.uploaded_bytes, **tags)
    yield counter(_GROUP, "snapshot-reused-files", figures.reused_files, **tags)
    if figures.seconds is not None:
        yield gauge(_GROUP, "snapshot-seconds", figures.seconds, **tags)
    age = age_ms(it, now_ms)
    if age is not None:
        yield gauge(_GROUP, "snapshot-age-seconds", age / 1000, **tags)


def age_ms(it: TaskSnapshots, now_ms: int) -> int | None:
    """The age of a task's newest snapshot; state that has not changed since does not age."""
    if it.fresh_at_ms is not None:
        return max(0, now_ms - it.fresh_at_ms)
    return None if it.last is None else max(0, now_ms - milliseconds(it.last.created_at))
