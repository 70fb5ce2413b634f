"""An instance as it is seen from outside: the ``/status`` document, health, metrics.

Called on the HTTP server's threads and by the application, at any time: reads what the runtime's threads publish as
plain attributes, waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from math import inf
from typing import Any

from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.metrics.samples import Sample, counter, gauge
from streamsapp.record import TopicPartition
from streamsapp.runtime import data_path, time_alignment
from streamsapp.runtime.changelog_reader import ChangelogReader, Observation
from streamsapp.runtime.client_state import ClientState
from streamsapp.runtime.components import Components
from streamsapp.runtime.global_stores.thread import GlobalThread
from streamsapp.runtime.hand_overs import HandOver
from streamsapp.runtime.hang_detection import Hang
from streamsapp.runtime.remote_state import snapshot_status
from streamsapp.state.engine.write_stalls import WriteStalls
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import StreamTask

_LONGEST_LINE = 300
#: So many tasks that hang are reported one by one.
_MOST_HANGS = 10


def document(config: StreamsConfig, state: ClientState, components: Components | None, clock: Clock) -> dict[str, Any]:
    """The ``/status`` document; an offset that is not known is ``None``."""
    assignment = None if components is None else components.life.assignment
    tls = None if components is None else components.membership.tls
    owned_at_ms = None if components is None else _owned_at_ms(components.membership.safe_until, clock)
    return {
        "applicationId": config.application_id,
        "instance": config.client_id,
        "state": state.value,
        "generation": None if assignment is None else assignment.generation,
        "tasks": []
        if components is None
        else [_task(task, components, owned_at_ms) for task in list(components.owned.all.values())],
        "handOvers": [] if components is None else [_hand_over(it) for it in list(components.life.hand_overs.last)],
        "notes": [] if assignment is None else list(assignment.notes),
        "ready": readiness(state, components)[0],
        "peers": [] if assignment is None else sorted({it.endpoint for it in assignment.peers.values() if it.endpoint}),
        "outages": [] if components is None else list(_outages(config, components, clock)),
        "objectStore": None
        if components is None or components.stores.remote is None
        else snapshot_status.request_figures(components.stores.remote, clock),
        "inProcessSeconds": None if components is None else round(components.hangs.longest, 1),
        "usualProcessSeconds": None if components is None else round(components.hangs.usual, 1),
        "hanging": [] if components is None else [_hang(it) for it in components.hangs.hanging[:_MOST_HANGS]],
        "subTopologies": [] if components is None else list(_sub_topologies(components)),
        "globalStores": []
        if components is None or components.stores.global_thread is None
        else _global_stores(components.stores.global_thread),
        "timeAlignment": [] if components is None else time_alignment.document(components.owned.alignment),
        "client": data_path.document(config, tls),
        "dataPath": data_path.described(config, tls),
    }


def _outages(config: StreamsConfig, components: Components, clock: Clock) -> Iterator[dict[str, Any]]:
    """The systems that this instance depends on and cannot reach, since when, and with which error."""
    remote = components.stores.remote
    found = [("kafka", config.bootstrap_servers, components.life.outage)]
    if remote is not None and config.remote_state is not None:
        both = [each for each in (remote.snapshots.outage, remote.restores.outage) if each is not None]
        found.append(("remoteState", config.remote_state.url, min(both, default=None)))
    for name, address, outage in found:
        if outage is not None:
            since_ms = clock.now_ms() - int(1000 * max(0.0, clock.monotonic() - outage[0]))
            told = {"name": name, "address": _line(address), "since": _iso(since_ms), "message": _line(outage[1])}
            yield told | ({"refused": components.life.refused} if name == "kafka" else {})


def _sub_topologies(components: Components) -> Iterator[dict[str, Any]]:
    """The sub-topologies of this instance's active tasks that are paused, or whose scheduling the application says."""
    scheduler = components.tasks.fair
    tasks: dict[int, list[StreamTask]] = {}
    for task in components.owned.active:
        tasks.setdefault(task.id.subtopology, []).append(task)
    for number in sorted(tasks.keys() | components.hangs.set_aside.now.keys()):
        share = scheduler.shares.get(number) if scheduler is not None else None
        aside = components.hangs.set_aside.now.get(number)
        if share is None and aside is None:
            continue
        lags = [task.input_lag for task in tasks.get(number, ())]
        yield {
            "id": number,
            "class": None if share is None else share.scheduling_class,
            "weight": None if share is None else share.weight,
            "busySeconds": None if scheduler is None else round(scheduler.busy_seconds(number), 3),
            "paused": None if aside is None else {"reason": _line(aside.reason), "since": _iso(aside.since_ms)},
            "inputLag": None if None in lags else sum(lag for lag in lags if lag is not None),
        }


def _hang(hang: Hang) -> dict[str, Any]:
    return {"task": str(hang.task), "seconds": round(hang.lasts, 1), "message": _line(str(hang))}


def _hand_over(it: HandOver) -> dict[str, Any]:
    gap = round(it.gap, 3)
    return {"task": str(it.task), "at": _iso(it.at_ms), "gapSeconds": gap, "kind": it.kind, "steps": dict(it.steps)}


def _line(text: str) -> str:
    """The text as one line that is not long."""
    return " ".join(text.split())[:_LONGEST_LINE]


def _global_stores(thread: GlobalThread) -> list[dict[str, Any]]:
    """Every partition that fills a global store."""
    return [
        {
            "name": it.store,
            "topic": str(partition),
            "position": it.observed.position,
            "endOffset": it.observed.end_offset,
            "lag": it.observed.lag,
            "observedAt": _iso(it.observed.observed_at_ms),
            "mode": "updating" if thread.restored.is_set() else "restoring",
        }
        for partition, it in thread.reading.partitions.items()
    ]


def _owned_at_ms(safe_until: float, clock: Clock) -> int | None:
    """The last time at which surely no other instance had this one's tasks: now, or before the group went silent."""
    if safe_until == -inf:
        return None
    return clock.now_ms() - int(1000 * max(0.0, clock.monotonic() - safe_until))


def _task(task: StreamTask, components: Components, owned_at_ms: int | None) -> dict[str, Any]:
    remote = components.stores.remote
    known = None if remote is None else snapshot_status.newest_snapshot(remote, task)
    return {
        "id": str(task.id),
        "role": task.role.value,
        "state": task.state.value,
        "stores": [
            _store(task, store, partition, known, components, owned_at_ms)
            for store, partition in task.plan.all_changelogs.items()
        ],
        "inputLag": task.input_lag if task.role is TaskRole.ACTIVE else None,
        "processedRecords": task.processed_records if task.role is TaskRole.ACTIVE else None,
        "waitingRecords": _waiting(task, components) if task.role is TaskRole.ACTIVE else None,
        "commits": task.stores.commits if task.role is TaskRole.ACTIVE else None,
        "paused": task.role is TaskRole.ACTIVE and components.tasks.is_paused(task),
        "writeStall": _write_stall(task.stores.write_stalls),
        "restore": None if remote is None else snapshot_status.restore_figures(remote, task, known),
    }


def _write_stall(stalls: WriteStalls | None) -> dict[str, Any] | None:
    """The work that the task's writes wait for, and for how long they have waited; ``None``: they never have."""
    if stalls is None or not stalls.seconds:
        return None
    return {
        "waitsFor": stalls.waits_for,
        "seconds": round(stalls.seconds, 3),
        "longestSeconds": round(stalls.longest, 3),
    }


def _waiting(task: StreamTask, components: Components) -> int:
    """Records that are here and could be processed now. Records of an open transaction are not here, though they are
    part of the lag."""
    return 0 if components.tasks.is_paused(task) else task.buffered_records


def _store(
    task: StreamTask,
    store: str,
    changelog: TopicPartition,
    known: snapshot_status.KnownSnapshot | None,
    components: Components,
    owned_at_ms: int | None,
) -> dict[str, Any]:
    reader = components.stores.restoration.reading.readers.get(changelog)
    if reader is not None and reader.task is not task:
        reader = None  # it was handed over a moment ago
    if task.role is TaskRole.ACTIVE:
        seen = None if owned_at_ms is None else _active(task, store, reader, owned_at_ms)
    else:
        seen = None if reader is None else reader.observed
    return {
        "name": store,
        "changelog": str(changelog),
        "position": None if seen is None else seen.position,
        "endOffset": None if seen is None else seen.end_offset,
        "lag": None if seen is None else seen.lag,
        "observedAt": None if seen is None else _iso(seen.observed_at_ms),
        "mode": _mode(task, components),
        "snapshot": snapshot_status.store_snapshot(known, store),
    }


def _active(task: StreamTask, store: str, reader: ChangelogReader | None, owned_at_ms: int) -> Observation | None:
    """An active task is the only writer of its changelog, for as long as it surely is active: once restored, where it
    stands is the end."""
    if reader is not None and reader.end is not None:
        return Observation(reader.position, reader.end, owned_at_ms)
    position = task.changelog_positions.get(store)
    return None if position is None else Observation(position, position, owned_at_ms)


def _mode(task: StreamTask, components: Components) -> str:
    if components.stores.restoration.prepares(task.id):
        return "restoring"
    if task.role is not TaskRole.ACTIVE:
        return "paused" if components.stores.restoration.reading.replicas_paused else "updating"
    if task.state is not TaskState.RUNNING:
        return "restoring"
    return "paused" if components.tasks.is_paused(task) else "processing"


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


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


def health(state: ClientState, components: Components | None, hang_limit: float) -> tuple[bool, str]:
    """Unhealthy: failed, a thread died, a processor hangs, or state is damaged again and again."""
    if state in (ClientState.ERROR, ClientState.PENDING_ERROR):
        return False, f"state is {state.value}"
    if components is None or state.ending:
        return True, f"state is {state.value}"
    dead = [thread.name for thread in components.threads if thread.ident is not None and not thread.is_alive()]
    if dead:
        return False, f"threads died: {', '.join(dead)}"
    if components.hangs.longest > hang_limit:
        return False, f"a record or punctuator has been in process for {components.hangs.longest:.0f} s"
    if (complaint := components.stores.restoration.corruptions.complaint) is not None:
        return False, complaint
    return True, f"state is {state.value}"


def readiness(state: ClientState, components: Components | None) -> tuple[bool, str]:
    """Return whether the instance is ready, and the reason if it has not come back yet, or is about to leave."""
    if components is None or state is ClientState.CREATED or state.ending:
        return False, f"state is {state.value}"
    if components.requests.leaving:
        return False, "its tasks are handed over to other instances"
    if awaited := [each for each in components.hangs.hanging if not each.alone]:
        return False, f"{awaited[0]}; commits wait for it"
    complaint = components.life.readiness.complaint
    return complaint is None, complaint or f"state is {state.value}"


def samples(config: StreamsConfig, state: ClientState, components: Components | None, now_ms: int) -> Iterator[Sample]:
    """Everything measured, under Kafka Streams' names."""
    client = {"client_id": config.client_id, "application_id": config.application_id}
    yield gauge("stream-metrics", "client-state", list(ClientState).index(state), **client)
    yield gauge("stream-metrics", "alive-stream-threads", _alive(components), **client)
    if components is None:
        return
    thread = {"thread_id": components.polling.name}
    yield from components.output.commit_latency.samples("stream-thread-metrics", "commit-latency", **thread)
    yield counter("stream-thread-metrics", "poll-records", components.feeder.records_consumed, **thread)
    yield counter(
        "stream-thread-metrics", "partitions-created-anew", components.feeder.partitions_created_anew, **thread
    )
    yield gauge("stream-thread-metrics", "output-buffer-records", components.output.buffered_records, **thread)
    yield gauge("stream-thread-metrics", "record-in-process-seconds", components.hangs.longest, **thread)
    yield from time_alignment.samples(components.owned.alignment, **thread)
    for each in _sub_topologies(components):
        part = {"sub_topology": str(each["id"])} | thread
        yield gauge("stream-thread-metrics", "sub-topology-paused", int(each["paused"] is not None), **part)
        if each["busySeconds"] is not None:
            yield counter("stream-thread-metrics", "sub-topology-busy-seconds", each["busySeconds"], **part)
    for worker in components.processing:
        yield from worker.epoch_end.samples("stream-thread-metrics", "commit-pause", thread_id=worker.name)
    for reader in list(components.stores.restoration.reading.readers.values()):
        yield from _reader_samples(reader)
    for task in components.owned.active:
        yield from _task_samples(task)
    if components.stores.remote is not None:
        yield from snapshot_status.samples(components.stores.remote, now_ms)
    for task_id, stores in components.statistics.figures.items():
        for store, measured in stores.items():
            for name, value in measured.items():
                metric = name.replace("_", "-")
                yield gauge("stream-state-metrics", metric, value, task_id=str(task_id), state_id=store)


def _reader_samples(reader: ChangelogReader) -> Iterator[Sample]:
    tags = {"task_id": str(reader.task.id), "state_id": reader.store}
    group = "stream-task-metrics"
    if reader.follows:
        yield counter(group, "update", reader.applied, **tags)
        if reader.observed is not None:
            yield gauge(group, "standby-lag", reader.observed.lag, **tags)
    else:
        yield gauge(group, "restore-remaining-records", reader.remaining, **tags)
        yield counter(group, "restore", reader.applied, **tags)


def _task_samples(task: StreamTask) -> Iterator[Sample]:
    tags = {"task_id": str(task.id)}
    group = "stream-task-metrics"
    yield counter(group, "process", task.processed_records, **tags)
    yield counter(group, "dropped-records", task.context.dropped_records, **tags)
    if (lateness := task.context.lateness.figures(task.context.clock.now_ms())) is not None:
        yield gauge(group, "record-lateness-avg", lateness.average, **tags)
        yield gauge(group, "record-lateness-max", lateness.highest, **tags)
    yield gauge(group, "active-buffer-count", task.buffered_records, **tags)
    yield gauge(group, "input-buffer-bytes-total", task.buffered_bytes, **tags)
    yield gauge(group, "uncommitted-bytes", task.stores.uncommitted_bytes, **tags)
    if task.input_lag is not None:
        yield gauge(group, "input-lag", task.input_lag, **tags)
    for (node, metric), count in list(task.context.counts.items()):
        yield counter("stream-processor-node-metrics", metric, count.value, **tags, processor_node_id=node)


def _alive(components: Components | None) -> int:
    return 0 if components is None else sum(thread.is_alive() for thread in components.processing)
