"""Finds faults around an application: nodes that are silent, outages that its pods report, and strangers in its
consumer group. Pure.

Called for the condition ``Degraded``. Pods say the last two in their ``/status``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamsapp_operator.gate import node_words
from streamsapp_operator.model.observed_state import ObservedState, Outage, PodSeen
from streamsapp_operator.plan.plan_input import PlanInput, moment
from streamsapp_operator.takeover import RUNNING

#: Of each thing that a pod can lack: the reason, what the pod cannot do in words, and what waits for it. An object
#: store counts as lacking, too, where it answers and refuses: the reason is in the pod's message.
_LACKING = {
    "kafka": ("KafkaUnreachable", "reach Kafka", "processing, commits and restarts wait for it"),
    "remoteState": (
        "ObjectStoreUnreachable",
        "use the object store of spec.remoteState",
        "snapshots wait for it, and with them restarts of tasks without a standby and restores; processing goes on",
    ),
}
_ONE_GROUP = (
    "all of them share the records and the state of one application id: choose another spec.applicationId for one of"
    " them, or stop it"
)


NODE_LOST = "NodeNotReady"
ID_TAKEN = "ApplicationIdTaken"


def held_back(elder: str) -> str:
    """Reports that an application is not started beside an older one of the same consumer group."""
    told = f"it is not started, as StreamsApp {elder} is older and has the same application id on the same Kafka"
    return f"{told}: {_ONE_GROUP}"


def node_lost(observed: ObservedState) -> str | None:
    """Returns which pods are on a node that no longer reports, and what to do; ``None`` if there is none. It says the
    same for as long as it is so."""
    pods = [pod for pod in (observed.driver, *observed.pods) if pod is not None and pod.node_lost]
    if not pods:
        return None
    first = [pod for pod in pods if pod.node == pods[0].node]
    nodes = sorted({str(pod.node) for pod in pods if pod.node != pods[0].node})
    more = f"; the same holds for {len(pods) - len(first)} more on {', '.join(nodes[:5])}" if nodes else ""
    return f"{_names(first)}: {node_words(first[0], 'its' if len(first) == 1 else 'their')}{more}"


def unreachable(inputs: PlanInput) -> Iterator[tuple[str, str]]:
    """Yields the reason and message of each thing that a pod cannot reach."""
    for name, (reason, words, waits) in _LACKING.items():
        driver = inputs.observed.driver
        pods = inputs.pods if driver is None else (driver,)
        told = [(pod, it) for pod in pods for it in _outages(inputs, pod) if it.name == name]
        if not told:
            continue
        first = min((it for _, it in told), key=lambda it: it.since)
        since = moment(min(_since(pod, it) for pod, it in told)).isoformat(timespec="seconds").replace("+00:00", "Z")
        names = _names([pod for pod, _ in told])
        yield reason, f"{names} cannot {words} at {first.address} since {since}: {first.message}; {waits}"


def strangers(inputs: PlanInput) -> Iterator[tuple[str, str]]:
    """Yields the reason and message if others are in the group. The pods' word counts only when all are settled:
    before, pods report members that ended a moment ago."""
    if inputs.observed.rivals:
        rivals = ", ".join(inputs.observed.rivals)
        yield ID_TAKEN, f"StreamsApp {rivals} has the same application id on the same Kafka: {_ONE_GROUP}"
        return
    reports = [pod.report for pod in inputs.pods if pod.report is not None]
    settled = len(reports) == len(inputs.pods) == (inputs.observed.children.replicas or 0) and all(
        pod.ready and not pod.terminating for pod in inputs.pods
    )
    if not settled or len({it.generation for it in reports}) != 1 or any(it.state != RUNNING for it in reports):
        return
    own = {pod.address for pod in inputs.pods}
    others = sorted({peer for it in reports for peer in it.peers if _host(peer) not in own})
    if others and None not in own:
        listed = ", ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
        yield ID_TAKEN, f"{listed} is in its consumer group and none of its pods: {_ONE_GROUP}"


def _outages(inputs: PlanInput, pod: PodSeen) -> tuple[Outage, ...]:
    return pod.report.outages if pod.report is not None and inputs.gate.covers.is_fresh(pod.report) else ()


def _names(pods: Sequence[PodSeen]) -> str:
    return ", ".join(pod.name for pod in pods[:3]) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")


def _since(pod: PodSeen, outage: Outage) -> float:
    """Returns the time by the operator's clock."""
    return outage.since - (0.0 if pod.report is None else pod.report.clock_offset)


def _host(endpoint: str) -> str:
    return endpoint.rpartition(":")[0].strip("[]")
