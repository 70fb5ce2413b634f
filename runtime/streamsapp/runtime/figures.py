"""The figures of an instance that change from second to second: what passes its nodes, and what does not.

Called on threads of the HTTP server for a user who looks: once a second at most for each. It reads what other threads
publish, leaves a wish for probes, and waits for nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from streamsapp.clock import Clock
from streamsapp.runtime.components import Components
from streamsapp.tasks.probes import Probe
from streamsapp.tasks.record_errors import RecordError
from streamsapp.tasks.record_queue import RecordQueue
from streamsapp.tasks.stream_task import StreamTask

#: Records that pass through probes until the next look: of all nodes together, and at least of each.
_BUDGET, _LEAST = 20_000, 10
#: Records reported for the tapped node, and for records that were not processed.
_TOLD = 50


def figures(components: Components | None, clock: Clock, tapped: str | None) -> dict[str, Any]:
    """The figures of all active tasks; ``tapped`` is the node whose last records are wanted."""
    tasks = [] if components is None else [task for task in components.owned.active if task.initialized]
    count = sum(len(task.plan.sub_topology.nodes) for task in tasks)
    budget = max(_LEAST, _BUDGET // max(1, count))
    nodes: dict[str, dict[str, Any]] = {}
    records: list[dict[str, Any]] = []
    for task in tasks:
        queues = list(task.queues.values())
        probes = task.probes.look(budget, tapped, processed=task.processed_records, now=clock.monotonic())
        _add_nodes(nodes, task, queues, probes)
        if tapped is not None and tapped in probes:
            records += _tapped(task, probes[tapped])
    return {
        "now": clock.now_ms(),
        "tasks": {str(task.id): _task(task) for task in tasks},
        "nodes": nodes,
        "tapped": {"node": tapped, "records": sorted(records, key=lambda it: it["timestamp"])[-_TOLD:]},
        "record_errors": _record_errors(tasks),
    }


def _task(task: StreamTask) -> dict[str, Any]:
    late = task.context.lateness.figures(task.context.clock.now_ms())
    return {
        "buffered": task.buffered_records,
        "dropped": task.context.dropped_records,
        "lateness": None if late is None else {"average": late.average, "highest": late.highest},
    }


def _add_nodes(
    nodes: dict[str, dict[str, Any]],
    task: StreamTask,
    queues: list[RecordQueue],
    probes: Mapping[str, Probe],
) -> None:
    """A node's figures are the sums over its tasks."""
    for node in task.plan.sub_topology.nodes:
        told = nodes.setdefault(node.name, {"rate": None, "dropped": 0, "queued": None})
        probe = probes.get(node.name)
        if probe is not None and probe.rate is not None:
            told["rate"] = probe.rate + (told["rate"] or 0.0)
        told["dropped"] += (
            task.context.record_errors.by_node[node.name] + task.context.record_errors.unwritten.by_node[node.name]
        )
    for queue in queues:
        told = nodes[queue.source]
        told["queued"] = len(queue) + (told["queued"] or 0)


def _tapped(task: StreamTask, probe: Probe) -> list[dict[str, Any]]:
    return [{"task": str(task.id), **record._asdict()} for record in list(probe.last)]


def _record_errors(tasks: Iterable[StreamTask]) -> list[dict[str, Any]]:
    """The last records that were not processed, the newest first."""
    found = [
        (record_error, task)
        for task in tasks
        for record_errors in (task.context.record_errors, task.context.record_errors.unwritten)
        for record_error in list(record_errors.last)
    ]
    found.sort(key=lambda each: each[0].at_ms, reverse=True)
    return [{"task": str(task.id), **_mishap(record_error)} for record_error, task in found[:_TOLD]]


def _mishap(record_error: RecordError) -> dict[str, Any]:
    key, value = (data and base64.b64encode(data).decode("ascii") for data in (record_error.key, record_error.value))
    return {**record_error._asdict(), "key": key, "value": value}
