"""Snapshots as text and as data, for ``streamsapp snapshots``. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from streamsapp.record import TaskId
from streamsapp.remote.snapshot import Snapshot, milliseconds

#: A task, the highest number of its chain, and its newest snapshot that can be used.
Row = tuple[TaskId, int, Snapshot | None]

_TITLES = ("TASK", "EPOCH", "NUMBER", "OFFSETS", "BYTES", "NEW", "AGE", "INSTANCE")


def table(rows: Sequence[Row], now_ms: int) -> Iterator[str]:
    """A line per task, under titles."""
    cells = [_TITLES, *(_cells(row, now_ms) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_TITLES))]
    for line in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    for task_id, number, snapshot in rows:
        if snapshot is None or snapshot.number < number:
            yield f"task {task_id}: snapshot {number} cannot be used; `streamsapp snapshots verify` says why"


def _cells(row: Row, now_ms: int) -> tuple[str, ...]:
    task_id, _, snapshot = row
    if snapshot is None:
        return (str(task_id), *("-" for _ in _TITLES[1:]))
    return (
        str(task_id),
        str(snapshot.epoch),
        str(snapshot.number),
        " ".join(f"{name}={point.offset}" for name, point in sorted(snapshot.stores.items())) or "-",
        size(snapshot.total_bytes),
        size(snapshot.new_bytes),
        duration(_age_ms(snapshot, now_ms)),
        snapshot.instance,
    )


def summary(task_id: TaskId, number: int, snapshot: Snapshot | None, now_ms: int) -> dict[str, Any]:
    """The same line as data; what is not known is null."""
    row: dict[str, Any] = {"task": str(task_id), "newestNumber": number}
    if snapshot is None:
        return row | dict.fromkeys(("epoch", "number", "offsets", "bytes", "newBytes", "ageSeconds", "instance"))
    return row | {
        "epoch": snapshot.epoch,
        "number": snapshot.number,
        "offsets": {name: point.offset for name, point in snapshot.stores.items()},
        "bytes": snapshot.total_bytes,
        "newBytes": snapshot.new_bytes,
        "ageSeconds": _age_ms(snapshot, now_ms) / 1000,
        "instance": snapshot.instance,
    }


def as_data(snapshot: Snapshot, now_ms: int) -> dict[str, Any]:
    """The manifest as it is, and what follows from it."""
    manifest: dict[str, Any] = msgspec.to_builtins(snapshot)
    derived = {"bytes": snapshot.total_bytes, "newBytes": snapshot.new_bytes}
    return {**manifest, **derived, "ageSeconds": _age_ms(snapshot, now_ms) / 1000}


def in_detail(snapshot: Snapshot, now_ms: int) -> Iterator[str]:
    """All that a snapshot says, for people."""
    yield f"task {snapshot.task}, snapshot {snapshot.number}"
    yield f"  epoch        {snapshot.epoch} (writer {snapshot.writer} on {snapshot.instance})"
    yield f"  created      {snapshot.created_at}, {duration(_age_ms(snapshot, now_ms))} ago"
    yield f"  written      {snapshot.written_at}"
    yield f"  fingerprint  {snapshot.fingerprint or '-'}"
    yield f"  size         {size(snapshot.total_bytes)} in {len(snapshot.files)} files, {size(snapshot.new_bytes)} new"
    for name, point in sorted(snapshot.stores.items()):
        yield f"  store        {name}: {point.changelog}-{point.partition} up to offset {point.offset}"
    for position in snapshot.inputs:
        yield f"  input        {position.topic}-{position.partition}: offset {position.offset}"
    for file in snapshot.files:
        yield f"  file         {file.name:<20} {size(file.size):>10}  sha256 {file.sha256[:16]}…  {file.object}"


def size(count: int) -> str:
    """Bytes as people read them."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def duration(milliseconds: int) -> str:
    """The two largest units."""
    seconds = max(milliseconds, 0) // 1000
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    if seconds < 86_400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
    return f"{seconds // 86_400}d{seconds % 86_400 // 3600:02d}h"


def _age_ms(snapshot: Snapshot, now_ms: int) -> int:
    return now_ms - milliseconds(snapshot.created_at)
