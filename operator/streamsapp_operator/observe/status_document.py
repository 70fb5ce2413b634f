"""Reads a pod's ``/status``. Pure; a document that cannot be understood is refused as a whole, as half a truth is worse
than none.

Called by ``pod_status``. User code runs in the pod, so the document is untrusted: sizes and types are checked.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from streamsapp_operator.model.observed_state import (
    HandOverReport,
    HangReport,
    Outage,
    PodReport,
    QueryReport,
    ReportedRole,
    StoreReport,
    TaskReport,
)

#: Of the whole document.
MAX_BYTES = 4 << 20
#: So many notes of a pod are read, and so many characters of each.
_MOST_NOTES, _LONGEST_NOTE = 20, 300
#: So many hand-overs of a pod are kept, the last ones; a pod of several instances reports those of all.
_MOST_HAND_OVERS = 64

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
#: Records a second; a number that is not finite is refused.
Rate: TypeAlias = Annotated[float, Meta(ge=0, le=1e15)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
#: It comes to terminals in the end.
Text: TypeAlias = Annotated[str, Meta(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
Word: TypeAlias = Annotated[str, Meta(max_length=40, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
#: A time without a zone could be any.
Instant: TypeAlias = Annotated[datetime, Meta(tz=True)]
#: The instants that are believed, from 1970 to 2200: with one of the year 1, arithmetic on times fails.
EARLIEST, LATEST = 0.0, 7_258_118_400.0
#: A task's sub-topology and partition, as Kafka counts them. There is work for each partition below the largest one
#: that a pod names, so a number without bound would be work without bound.
TaskId: TypeAlias = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]{0,3})_(0|[1-9][0-9]{0,4})\Z")]


class _Fields(Struct, frozen=True, rename="camel"):
    """The base of all parts. Unknown fields are let pass: a runtime may be newer than the operator."""


class _Snapshot(_Fields, frozen=True):
    offset: Count | None = None
    created_at: Instant | None = None
    confirmed_at: Instant | None = None


class _Store(_Fields, frozen=True):
    name: Text
    changelog: Text
    position: Count | None
    end_offset: Count | None
    lag: Count | None
    observed_at: Instant | None
    mode: Text
    snapshot: _Snapshot | None = None


class _Restore(_Fields, frozen=True):
    predicted_seconds: Seconds | None = None


class _Task(_Fields, frozen=True):
    id: TaskId
    role: Literal["active", "standby", "warmup"]
    state: Text
    stores: Annotated[tuple[_Store, ...], Meta(max_length=1000)] = ()
    input_lag: Count | None = None
    restore: _Restore | None = None
    processed_records: Count | None = None
    waiting_records: Count | None = None
    commits: Count | None = None
    worker: Text | None = None
    paused: bool = False


class _Outage(_Fields, frozen=True):
    name: Literal["kafka", "remoteState"]
    address: Text
    since: Instant
    message: Text
    refused: bool = False


class _Hang(_Fields, frozen=True):
    task: TaskId
    seconds: Seconds
    message: Text


class _Steps(_Fields, frozen=True):
    assigned: Seconds | None = None
    restored: Seconds | None = None
    read: Seconds | None = None


class _HandOver(_Fields, frozen=True):
    task: TaskId
    at: Instant
    gap_seconds: Seconds
    kind: Word
    steps: _Steps = _Steps()


class _Durations(_Fields, frozen=True):
    """The times of one batch, in milliseconds."""

    trigger_execution: Count | None = None


class _Progress(_Fields, frozen=True):
    processed_rows_per_second: Rate | None = None
    duration_ms: _Durations = _Durations()


class _Document(_Fields, frozen=True):
    application_id: Text
    state: Text
    generation: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None
    tasks: Annotated[tuple[_Task, ...], Meta(max_length=10_000)]
    ready: bool | None = None
    peers: Annotated[tuple[Text, ...], Meta(max_length=10_000)] = ()
    outages: Annotated[tuple[_Outage, ...], Meta(max_length=10)] = ()
    hanging: Annotated[tuple[_Hang, ...], Meta(max_length=10_000)] = ()
    in_process_seconds: Seconds | None = None
    usual_process_seconds: Seconds | None = None
    notes: Annotated[tuple[str, ...], Meta(max_length=10_000)] = ()
    instance_restarts: Count = 0
    restarted_seconds_ago: Seconds | None = None
    data_path: Text | None = None
    kafka_secret_changed: bool = False
    hand_overs: Annotated[tuple[_HandOver, ...], Meta(max_length=10_000)] | None = None
    #: Only of a driver.
    batches: Count | None = None
    executors: Annotated[tuple[Text, ...], Meta(max_length=10_000)] | None = None
    progress: _Progress | None = None


_decode = msgspec.json.Decoder(_Document).decode


def read_status(body: bytes, application_id: str, fetched_at: float, clock_offset: float) -> PodReport | str:
    """Returns the report, or why there is none."""
    if len(body) > MAX_BYTES:
        return f"its /status is larger than {MAX_BYTES >> 20} MiB"
    try:
        document = _decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        return f"its /status is not understood: {str(error)[:200]}"
    if document.application_id != application_id:
        # Addresses are given to other pods later.
        return f"another application answers at its address: {document.application_id[:100]!r}"
    try:
        tasks = tuple(map(_task, document.tasks))
        outages = tuple(Outage(it.name, it.address, _unix(it.since), it.message, it.refused) for it in document.outages)
        hand_overs = None if document.hand_overs is None else _hand_overs(document.hand_overs)
    except ValueError as error:
        return f"its /status is not understood: {error}"
    return PodReport(
        document.state,
        document.generation,
        tasks,
        fetched_at,
        clock_offset,
        document.ready,
        document.peers,
        outages,
        _query(document),
        document.executors,
        tuple(HangReport(it.task, it.seconds, it.message) for it in document.hanging),
        document.in_process_seconds,
        tuple(map(_shown, document.notes[:_MOST_NOTES])),
        document.instance_restarts,
        document.restarted_seconds_ago,
        document.usual_process_seconds or 0.0,
        document.data_path,
        document.kafka_secret_changed,
        hand_overs,
    )


def _hand_overs(found: tuple[_HandOver, ...]) -> tuple[HandOverReport, ...]:
    read = [
        HandOverReport(
            it.task, _unix(it.at), it.gap_seconds, it.kind, it.steps.assigned, it.steps.restored, it.steps.read
        )
        for it in found
    ]
    return tuple(sorted(read, key=lambda it: it.at)[-_MOST_HAND_OVERS:])


def _shown(note: str) -> str:
    """Returns a sentence as terminals take it; it may be longer than other texts."""
    return "".join(filter(str.isprintable, note))[:_LONGEST_NOTE]


def _query(document: _Document) -> QueryReport | None:
    if document.batches is None:
        return None
    progress = document.progress or _Progress()
    took = progress.duration_ms.trigger_execution
    return QueryReport(
        state=document.state,
        batches=document.batches,
        batch_seconds=None if took is None else took / 1000,
        records_per_second=progress.processed_rows_per_second,
    )


def _task(task: _Task) -> TaskReport:
    restore = task.restore or _Restore()
    return TaskReport(
        task.id,
        ReportedRole(task.role),
        task.state,
        tuple(map(_store, task.stores)),
        task.input_lag,
        restore.predicted_seconds,
        task.restore is not None,
        task.processed_records,
        task.commits,
        task.worker,
        task.waiting_records,
        task.paused,
    )


def _store(store: _Store) -> StoreReport:
    snapshot = store.snapshot or _Snapshot()
    return StoreReport(
        store.name,
        store.changelog,
        store.position,
        store.end_offset,
        store.lag,
        _seconds(store.observed_at),
        store.mode,
        snapshot.offset,
        _seconds(snapshot.confirmed_at or snapshot.created_at),
    )


def _seconds(instant: datetime | None) -> float | None:
    return None if instant is None else _unix(instant)


def _unix(instant: datetime) -> float:
    """Returns seconds of Unix time; raises ``ValueError`` for an instant that cannot be true."""
    seconds = instant.timestamp()
    if not EARLIEST <= seconds <= LATEST:
        raise ValueError(f"{instant.isoformat()} is no time between 1970 and 2200")
    return seconds
