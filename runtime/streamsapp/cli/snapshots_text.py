"""Snapshots as text and as data, for ``streamsapp snapshots``. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from streamsapp.record import TaskId
from streamsapp.remote.snapshot import Snapshot, milliseconds
from streamsapp.runtime.snapshot_lag import SnapshotLag
from streamsapp.units import duration_text, size_text

#: A task, the highest number of its chain, and its newest snapshot that can be used.
Row = tuple[TaskId, int, Snapshot | None]

_TITLES = ("TASK", "EPOCH", "NUMBER", "OFFSETS", "BYTES", "NEW", "AGE", "BEHIND", "INSTANCE")


def table(rows: Sequence[Row], lags: Mapping[TaskId, SnapshotLag], now_ms: int) -> Iterator[str]:
    """A line per task, under titles. ``lags`` are the distances from what is committed, as far as they are known."""
    cells = [_TITLES, *(_cells(row, lags.get(row[0]), now_ms) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_TITLES))]
    for line in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    for task_id, number, snapshot in rows:
        if snapshot is None or snapshot.number < number:
            yield f"task {task_id}: snapshot {number} cannot be used; `streamsapp snapshots verify` says why"
    yield from (str(lag) for lag in lags.values() if lag.is_behind)


def _cells(row: Row, lag: SnapshotLag | None, now_ms: int) -> tuple[str, ...]:
    task_id, _, snapshot = row
    if snapshot is None:
        return (str(task_id), *("-" for _ in _TITLES[1:]))
    return (
        str(task_id),
        str(snapshot.epoch),
        str(snapshot.number),
        " ".join(f"{name}={point.offset}" for name, point in sorted(snapshot.stores.items())) or "-",
        size_text(snapshot.total_bytes),
        size_text(snapshot.new_bytes),
        duration_text(_age_seconds(snapshot, now_ms)),
        "-" if lag is None else str(_records(lag)),
        snapshot.instance,
    )


def _records(lag: SnapshotLag) -> int:
    """Offsets of inputs that the group has committed after the snapshot."""
    return sum(group - at for at, group in lag.inputs.values())


def summary(row: Row, lag: SnapshotLag | None, now_ms: int) -> dict[str, Any]:
    """Returns the same line as data; a fact that is not known is null."""
    task_id, number, snapshot = row
    known: dict[str, Any] = {"task": str(task_id), "newestNumber": number}
    if snapshot is None:
        return known | dict.fromkeys(
            ("epoch", "number", "offsets", "bytes", "newBytes", "ageSeconds", "behind", "instance")
        )
    return known | {
        "epoch": snapshot.epoch,
        "number": snapshot.number,
        "offsets": {name: point.offset for name, point in snapshot.stores.items()},
        "bytes": snapshot.total_bytes,
        "newBytes": snapshot.new_bytes,
        "ageSeconds": _age_seconds(snapshot, now_ms),
        "behind": None if lag is None else _behind(lag),
        "instance": snapshot.instance,
    }


def _behind(lag: SnapshotLag) -> dict[str, Any]:
    inputs = {str(each): {"snapshot": at, "committed": group} for each, (at, group) in lag.inputs.items()}
    changelogs = {store: {"snapshot": at, "end": end} for store, (at, end) in lag.stores.items()}
    return {"records": _records(lag), "inputs": inputs, "changelogs": changelogs}


def as_data(snapshot: Snapshot, now_ms: int) -> dict[str, Any]:
    """The manifest as it is, and what follows from it."""
    manifest: dict[str, Any] = msgspec.to_builtins(snapshot)
    derived = {"bytes": snapshot.total_bytes, "newBytes": snapshot.new_bytes}
    return {**manifest, **derived, "ageSeconds": _age_seconds(snapshot, now_ms)}


def in_detail(snapshot: Snapshot, now_ms: int) -> Iterator[str]:
    """Returns everything that a snapshot says, for people."""
    yield f"task {snapshot.task}, snapshot {snapshot.number}"
    yield f"  epoch        {snapshot.epoch} (writer {snapshot.writer} on {snapshot.instance})"
    yield f"  created      {snapshot.created_at}, {duration_text(_age_seconds(snapshot, now_ms))} ago"
    yield f"  written      {snapshot.written_at}"
    yield f"  fingerprint  {snapshot.fingerprint or '-'}"
    total, new = size_text(snapshot.total_bytes), size_text(snapshot.new_bytes)
    yield f"  size         {total} in {len(snapshot.files)} files, {new} new"
    for name, point in sorted(snapshot.stores.items()):
        yield f"  store        {name}: {point.changelog}-{point.partition} up to offset {point.offset}"
    for position in snapshot.inputs:
        yield f"  input        {position.topic}-{position.partition}: offset {position.offset}"
    for file in snapshot.files:
        yield f"  file         {file.name:<20} {size_text(file.size):>10}  sha256 {file.sha256[:16]}…  {file.object}"


def _age_seconds(snapshot: Snapshot, now_ms: int) -> float:
    return (now_ms - milliseconds(snapshot.created_at)) / 1000
