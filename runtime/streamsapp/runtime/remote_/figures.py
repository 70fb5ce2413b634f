"""What can be seen of remote state from outside: its part of ``/status`` and of the metrics.

Called on the HTTP server's threads: reads what the snapshot threads publish as plain attributes, waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamsapp.metrics.samples import Sample, counter, gauge
from streamsapp.record import TaskId
from streamsapp.remote.snapshot import Snapshot, milliseconds
from streamsapp.runtime.remote_.remote_state import RemoteState
from streamsapp.runtime.remote_.task_snapshots import TaskSnapshots
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask

_GROUP = "stream-task-metrics"


def newest_snapshot(remote: RemoteState, task: StreamTask) -> Snapshot | None:
    """The newest that is known here: an active task writes them, any other may have begun with one."""
    written = remote.snapshots.of(task.id)
    own = None if written is None or task.role is not TaskRole.ACTIVE else written.last
    return own or remote.restores.snapshots.get(task.id)


def store_snapshot(snapshot: Snapshot | None, store: str) -> dict[str, Any] | None:
    """One store's part of a snapshot."""
    point = None if snapshot is None else snapshot.stores.get(store)
    if snapshot is None or point is None:
        return None
    return {"epoch": snapshot.epoch, "offset": point.offset, "createdAt": snapshot.created_at}


def restore_figures(remote: RemoteState, task: StreamTask, snapshot: Snapshot | None) -> dict[str, Any]:
    """What restoring a task would take elsewhere, with an empty disk, and what it took here; not known is ``None``."""
    timing = remote.restores.timings.get(task.id)
    figures: dict[str, Any] = {"predictedSeconds": _rounded(_predicted(remote, task, snapshot))}
    if timing is not None:
        figures["downloadSeconds"] = _rounded(timing.download_seconds)
        figures["observedSeconds"] = _rounded(timing.observed_seconds)
        figures["downloadedBytes"] = timing.moved_bytes
        figures["totalBytes"] = timing.total_bytes
    return figures


def _predicted(remote: RemoteState, task: StreamTask, snapshot: Snapshot | None) -> float | None:
    """Where the task stands decides, so a replica's is not known before it has read anything."""
    positions = [task.changelog_positions.get(store) for store in task.plan.all_changelogs]
    if None in positions:
        return None
    points = {} if snapshot is None else snapshot.stores
    begun = sum(point.offset for store, point in points.items() if store in task.plan.all_changelogs)
    records = sum(position for position in positions if position is not None) - begun
    return remote.rates.predict(0 if snapshot is None else snapshot.total_bytes, max(0, records))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def samples(remote: RemoteState, now_ms: int) -> Iterator[Sample]:
    """Everything measured."""
    for task_id, it in remote.snapshots.tasks.items():
        yield from _task_samples(task_id, it, now_ms)
    yield counter("stream-metrics", "snapshot-downloaded-bytes", remote.restores.bytes_downloaded)
    for name, rate in (("bytes", remote.rates.download), ("records", remote.rates.replay)):
        if (per_second := rate.per_second) is not None:
            yield gauge("stream-metrics", f"restore-{name}-rate", per_second)
    for task_id, timing in list(remote.restores.timings.items()):
        for name, seconds in (("predicted", timing.predicted), ("observed", timing.observed_seconds)):
            if seconds is not None:
                yield gauge(_GROUP, f"restore-{name}-seconds", seconds, task_id=str(task_id))


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
    """How old what the object store has of a task is; it is not old for having not changed."""
    if it.fresh_at_ms is not None:
        return max(0, now_ms - it.fresh_at_ms)
    return None if it.last is None else max(0, now_ms - milliseconds(it.last.created_at))
