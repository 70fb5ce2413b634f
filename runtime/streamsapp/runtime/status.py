"""What can be seen of an instance from outside: the ``/status`` document, health, metrics.

Called on the HTTP server's threads and by the application, at any time: reads what the runtime's threads publish as
plain attributes, waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.metrics.samples import Sample, counter, gauge
from streamsapp.record import TopicPartition
from streamsapp.runtime.client_state import ClientState
from streamsapp.runtime.parts import Parts
from streamsapp.runtime.restoration import ChangelogRestore
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask


def document(config: StreamsConfig, state: ClientState, parts: Parts | None, now_ms: int) -> dict[str, Any]:
    """The ``/status`` document; an offset that is not known is ``None``."""
    observed_at = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
    tasks = [] if parts is None else list(parts.owned.all.values())
    restoring = {} if parts is None else dict(parts.restoration.restoring)
    return {
        "applicationId": config.application_id,
        "instance": config.client_id,
        "state": state.value,
        "generation": 0,
        "tasks": [_task(task, restoring, observed_at, parts is not None and parts.tasks.paused) for task in tasks],
    }


def _task(
    task: StreamTask, restoring: dict[TopicPartition, ChangelogRestore], observed_at: str, paused: bool
) -> dict[str, Any]:
    changelogs = {**task.plan.changelogs, **task.plan.source_changelogs}
    mode = "restoring" if task.state is not TaskState.RUNNING else "paused" if paused else "processing"
    return {
        "id": str(task.id),
        "role": "active",
        "state": task.state.value,
        "stores": [
            _store(task, store, partition, restoring.get(partition), observed_at, mode)
            for store, partition in changelogs.items()
        ],
        "inputLag": task.input_lag,
    }


def _store(
    task: StreamTask,
    store: str,
    changelog: TopicPartition,
    restore: ChangelogRestore | None,
    observed_at: str,
    mode: str,
) -> dict[str, Any]:
    """An active task is the only writer of its changelog: once restored, where it stands is the end."""
    position = restore.position if restore is not None else task.changelog_positions.get(store)
    end = restore.end if restore is not None else position
    return {
        "name": store,
        "changelog": str(changelog),
        "position": position,
        "endOffset": end,
        "lag": None if position is None or end is None else max(0, end - position),
        "observedAt": observed_at,
        "mode": mode,
        "snapshot": None,
    }


def store_lags(tasks: Iterable[dict[str, Any]]) -> dict[str, dict[int, dict[str, int | None]]]:
    """Store to partition to its offsets."""
    lags: dict[str, dict[int, dict[str, int | None]]] = {}
    for task in tasks:
        for store in task["stores"]:
            partition = int(store["changelog"].rpartition("-")[2])
            lags.setdefault(store["name"], {})[partition] = {
                name: store[name] for name in ("position", "endOffset", "lag")
            }
    return lags


def health(state: ClientState, parts: Parts | None, hang_limit: float) -> tuple[bool, str]:
    """Unhealthy: failed, a thread died, or a processor hangs."""
    if state in (ClientState.ERROR, ClientState.PENDING_ERROR):
        return False, f"state is {state.value}"
    if parts is None or state.ending:
        return True, f"state is {state.value}"
    dead = [thread.name for thread in parts.threads if thread.ident is not None and not thread.is_alive()]
    if dead:
        return False, f"threads died: {', '.join(dead)}"
    if parts.watch.longest > hang_limit:
        return False, f"a record has been in process for {parts.watch.longest:.0f} s"
    return True, f"state is {state.value}"


def samples(config: StreamsConfig, state: ClientState, parts: Parts | None) -> Iterator[Sample]:
    """Everything measured, under Kafka Streams' names."""
    client = {"client_id": config.client_id, "application_id": config.application_id}
    yield gauge("stream-metrics", "client-state", list(ClientState).index(state), **client)
    yield gauge("stream-metrics", "alive-stream-threads", _alive(parts), **client)
    if parts is None:
        return
    thread = {"thread_id": parts.polling.name}
    yield from parts.polling.commit_latency.samples("stream-thread-metrics", "commit-latency", **thread)
    yield counter("stream-thread-metrics", "poll-records", parts.feeder.records_consumed, **thread)
    yield gauge("stream-thread-metrics", "output-buffer-records", len(parts.collector), **thread)
    for worker in parts.processing:
        yield from worker.epoch_end.samples("stream-thread-metrics", "commit-pause", thread_id=worker.name)
    for restore in list(parts.restoration.restoring.values()):
        tags = {"task_id": str(restore.task.id), "state_id": restore.store}
        yield gauge("stream-task-metrics", "restore-remaining-records", restore.remaining, **tags)
        yield counter("stream-task-metrics", "restore", restore.restored, **tags)
    for task in list(parts.owned.all.values()):
        yield from _task_samples(task)
    for task_id, stores in parts.statistics.figures.items():
        for store, figures in stores.items():
            for name, value in figures.items():
                metric = name.replace("_", "-")
                yield gauge("stream-state-metrics", metric, value, task_id=str(task_id), state_id=store)


def _task_samples(task: StreamTask) -> Iterator[Sample]:
    tags = {"task_id": str(task.id)}
    group = "stream-task-metrics"
    yield counter(group, "process", task.processed_records, **tags)
    yield counter(group, "dropped-records", task.context.dropped_records, **tags)
    yield gauge(group, "active-buffer-count", task.buffered_records, **tags)
    yield gauge(group, "input-buffer-bytes-total", task.buffered_bytes, **tags)
    yield gauge(group, "uncommitted-bytes", task.stores.uncommitted_bytes, **tags)
    if task.input_lag is not None:
        yield gauge(group, "input-lag", task.input_lag, **tags)


def _alive(parts: Parts | None) -> int:
    return 0 if parts is None else sum(thread.is_alive() for thread in parts.processing)
