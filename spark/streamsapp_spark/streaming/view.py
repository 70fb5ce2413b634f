"""The engine as it is seen from outside, in the form of an instance's: ``/status``, health, metrics.

Called on the threads of the HTTP server.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.metrics.samples import Histogram, Sample, counter, gauge
from streamsapp.record import TaskId
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.client_state import ClientState
from streamsapp.runtime.micro_batches.model import LaneReport, LaneTaskReport
from streamsapp_spark.sinks.figures import SinkFigures

log = logging.getLogger(__name__)


@dataclass
class Figures:
    """Reports of the workers."""

    tasks: dict[TaskId, LaneTaskReport] = field(default_factory=dict)
    processed: dict[TaskId, int] = field(default_factory=dict)
    heard_at_ms: dict[TaskId, int] = field(default_factory=dict)
    batches: int = 0
    #: Processes that cannot write snapshots: since when, and why.
    outages: dict[str, tuple[int, str]] = field(default_factory=dict)
    #: As Spark reports it, of the last batch.
    progress: Mapping[str, Any] | None = None
    sinks: tuple[SinkFigures, ...] = ()
    lane_seconds: Histogram = field(default_factory=Histogram)
    commit_seconds: Histogram = field(default_factory=Histogram)
    restore_seconds: Histogram = field(default_factory=Histogram)

    def report(self, process: str, report: LaneReport, now_ms: int) -> None:
        """A lane is done."""
        if report.outage is None:
            self.outages.pop(process, None)
        else:
            if process not in self.outages:
                log.warning("%s cannot write snapshots: %s", process, report.outage[1])
            self.outages[process] = report.outage
        if report.tasks:
            self.lane_seconds.observe(report.seconds)
            self.commit_seconds.observe(report.commit_seconds)
            self.restore_seconds.observe(report.restore_seconds)
        for task in report.tasks:
            self.tasks[task.id] = task
            self.processed[task.id] = self.processed.get(task.id, 0) + task.records
            self.heard_at_ms[task.id] = now_ms

    @property
    def state_rows(self) -> int:
        """Entries of all stores, as far as they are known."""
        return sum(task.state_rows for task in list(self.tasks.values()))

    @property
    def state_bytes(self) -> int:
        """On disk and in memtables."""
        return sum(task.state_bytes for task in list(self.tasks.values()))


class Known(Protocol):
    """The part of the service that is shown."""

    @property
    def lags(self) -> dict[TaskId, int]: ...
    @property
    def owners(self) -> dict[TaskId, str]: ...
    @property
    def pods(self) -> frozenset[str]: ...
    @property
    def moves(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def outage(self) -> tuple[float, str] | None: ...


def document(
    config: StreamsConfig,
    state: ClientState,
    layout: ApplicationLayout | None,
    figures: Figures,
    service: Known | None,
    clock: Clock,
) -> dict[str, Any]:
    """The ``/status`` document of a driver: its tasks are those of all workers."""
    lags, owners = ({}, {}) if service is None else (service.lags, service.owners)
    plans = {} if layout is None else layout.plans
    return {
        "applicationId": config.application_id,
        "instance": config.client_id,
        "engine": "spark",
        "state": state.value,
        "generation": None,
        "tasks": [_task(task_id, plans[task_id], figures, lags, owners) for task_id in sorted(plans)],
        "notes": [],
        "ready": state is ClientState.RUNNING,
        "peers": [],
        "outages": [] if service is None else list(_outages(config, figures, service, clock)),
        "globalStores": [],
        "batches": figures.batches,
        "executors": [] if service is None else sorted(service.pods),
        "batchSize": None if service is None else service.batch_size,
        "progress": _progress(figures.progress),
        "sinks": [_sink(each) for each in figures.sinks],
    }


def _sink(sink: SinkFigures) -> dict[str, Any]:
    return {
        "name": sink.name,
        "topic": sink.topic,
        "format": sink.format,
        "table": sink.table,
        "batches": sink.batches,
        "addedAt": None if sink.added_at_ms is None else _iso(sink.added_at_ms),
        "lookedAt": sink.looked_at,
        "offsets": dict(sink.offsets),
    }


def _outages(config: StreamsConfig, figures: Figures, service: Known, clock: Clock) -> Iterator[dict[str, Any]]:
    """Kafka, if it does not answer the driver, and the object store, for each process that cannot write there."""
    if service.outage is not None:
        since, why = service.outage
        since_ms = clock.now_ms() - int(1000 * max(0.0, clock.monotonic() - since))
        yield {"name": "kafka", "address": config.bootstrap_servers, "since": _iso(since_ms), "message": why}
    address = "" if config.remote_state is None else config.remote_state.url
    for process, (since_ms, why) in sorted(figures.outages.copy().items()):
        if process in service.owners.values():
            message = f"on {process}: {why}"
            yield {"name": "remoteState", "address": address, "since": _iso(since_ms), "message": message}


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _progress(progress: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The last batch, as Spark's user interface shows it."""
    if progress is None:
        return None
    shown = ("batchId", "numInputRows", "inputRowsPerSecond", "processedRowsPerSecond", "durationMs")
    observed = progress.get("observedMetrics", {}).get("streamsapp")
    # Rates that Spark cannot report are left out there.
    return {name: progress.get(name) for name in shown} | {"observedMetrics": observed}


def _task(
    task_id: TaskId, plan: Any, figures: Figures, lags: Mapping[TaskId, int], owners: Mapping[TaskId, str]
) -> dict[str, Any]:
    report = figures.tasks.get(task_id)
    return {
        "id": str(task_id),
        "role": "active",
        "state": "CREATED" if report is None else "RUNNING",
        "stores": [
            _store(store, str(changelog), report, figures.heard_at_ms.get(task_id))
            for store, changelog in plan.all_changelogs.items()
        ],
        "inputLag": lags.get(task_id),
        "processedRecords": figures.processed.get(task_id, 0),
        "restore": None,
        "worker": owners.get(task_id),
    }


def _store(name: str, changelog: str, report: LaneTaskReport | None, heard_at_ms: int | None) -> dict[str, Any]:
    position = None if report is None else report.changelogs.get(name)
    return {
        "name": name,
        "changelog": changelog,
        "position": position,
        "endOffset": position,
        "lag": None if position is None else 0,
        "observedAt": None if position is None or heard_at_ms is None else _iso(heard_at_ms),
        "mode": "restoring" if report is None else "processing",
        "snapshot": None,
    }


def samples(config: StreamsConfig, state: ClientState, figures: Figures, service: Known | None) -> Iterator[Sample]:
    """Everything measured, under Kafka Streams' names where it has one."""
    lags = {} if service is None else service.lags
    client = {"client_id": config.client_id, "application_id": config.application_id}
    yield gauge("stream-metrics", "client-state", list(ClientState).index(state), **client)
    yield counter("stream-batch-metrics", "batches", figures.batches, **client)
    yield counter("stream-batch-metrics", "lane-moves", 0 if service is None else service.moves, **client)
    yield gauge("stream-batch-metrics", "state-rows", figures.state_rows, **client)
    yield gauge("stream-batch-metrics", "state-bytes", figures.state_bytes, **client)
    yield from figures.lane_seconds.samples("stream-batch-metrics", "lane-latency", **client)
    yield from figures.commit_seconds.samples("stream-batch-metrics", "commit-latency", **client)
    yield from figures.restore_seconds.samples("stream-batch-metrics", "restore-latency", **client)
    for sink in figures.sinks:
        yield counter("stream-sink-metrics", "batches", sink.batches, sink=sink.name)
        yield gauge("stream-sink-metrics", "end-offsets", sum(sink.offsets.values()), sink=sink.name)
    for task_id, report in sorted(figures.tasks.copy().items()):
        tags = {"task_id": str(task_id)}
        yield counter("stream-task-metrics", "process", figures.processed[task_id], **tags)
        yield counter("stream-task-metrics", "dropped-records", report.dropped_records, **tags)
        yield gauge("stream-task-metrics", "input-lag", lags.get(task_id, 0), **tags)
