"""The topologies of W5 to W9, in which time matters, for streamsapp.

Built by ``streamsapp_app.py``. Widths and graces are those of ``workloads_in_time.py``.
"""

from __future__ import annotations

from operator import add
from typing import Literal

from benchmarks.systems.job import Job
from benchmarks.workloads_in_time import CUSTOMER_BYTES, HOP, JOIN_WINDOW, MINUTE, SESSION_GAP

from streamsapp import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    KGroupedStream,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
)

_GRACE = 10_000
_BYTES = Serdes.bytes()
_CONSUMED = Consumed(_BYTES, _BYTES)
_PRODUCED = Produced(_BYTES, _BYTES)


def count_windows(builder: StreamsBuilder, job: Job) -> None:
    windows = TimeWindows.of(MINUTE, grace=_GRACE)
    if "hopping" in job.workload:
        windows = windows.advance_by(HOP)
    counts = _grouped(builder, job).windowed_by(windows).count(Materialized("counts", emit=_emit(job)))
    counts.to_stream().to(job.output)


def count_sessions(builder: StreamsBuilder, job: Job) -> None:
    sessions = _grouped(builder, job).windowed_by(SessionWindows.of(SESSION_GAP, grace=_GRACE))
    sessions.count(Materialized("counts", emit=_emit(job))).to_stream().to(job.output)


def join_streams(builder: StreamsBuilder, job: Job) -> None:
    left, right = builder.stream(job.input, _CONSUMED), builder.stream(job.right, _CONSUMED)
    joined = left.join(right, add, JoinWindows.of(JOIN_WINDOW), StreamJoined(_BYTES, _BYTES, _BYTES))
    joined.to(job.output, _PRODUCED)


def join_table(builder: StreamsBuilder, job: Job) -> None:
    table = builder.table(job.right, _CONSUMED)
    joined = builder.stream(job.input, _CONSUMED).join(table, add, Joined(_BYTES, _BYTES, _BYTES))
    joined.to(job.output, _PRODUCED)


def join_foreign(builder: StreamsBuilder, job: Job) -> None:
    orders, customers = builder.table(job.input, _CONSUMED), builder.table(job.right, _CONSUMED)
    joined = orders.left_join(
        customers, lambda order: order[:CUSTOMER_BYTES], lambda order, found: order + (found or b"")
    )
    joined.to_stream().to(job.output, _PRODUCED)


def _grouped(builder: StreamsBuilder, job: Job) -> KGroupedStream[bytes, bytes]:
    return builder.stream(job.input, _CONSUMED).group_by_key(Grouped(_BYTES, _BYTES))


def _emit(job: Job) -> Literal["commit", "update"]:
    return "commit" if job.variant.endswith("commit") else "update"
