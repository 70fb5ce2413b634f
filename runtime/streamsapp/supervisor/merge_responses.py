"""Makes one answer of those of several instances. Pure.

Called on threads of the pod's HTTP server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

#: States of an instance, the worst first.
_WORST_FIRST = (
    "ERROR",
    "PENDING_ERROR",
    "NOT_RUNNING",
    "PENDING_SHUTDOWN",
    "CREATED",
    "REBALANCING",
    "RUNNING",
)
#: The state of an instance that does not answer: it is starting, or about to be started again.
_SILENT = "CREATED"
#: So many of the last hand-overs are reported, as of one instance.
_HAND_OVERS = 64


def merge_status(application_id: str, pod: str, documents: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
    """Merges ``/status`` documents into one: the tasks of all, the worst state, the oldest generation. ``instances``
    lists each instance by itself; of an instance that does not answer nothing is known."""
    answered = [document for document in documents.values() if document is not None]
    states = {name: _SILENT if document is None else document["state"] for name, document in documents.items()}
    generations = [document["generation"] for document in answered]
    return {
        "applicationId": application_id,
        "instance": pod,
        "state": min(states.values(), key=_WORST_FIRST.index),
        "generation": None if None in generations or len(answered) < len(documents) else min(generations),
        "tasks": [task for document in answered for task in document["tasks"]],
        "handOvers": sorted(
            (each for document in answered for each in document.get("handOvers", ())), key=lambda each: each["at"]
        )[-_HAND_OVERS:],
        "timeAlignment": [group for document in answered for group in document.get("timeAlignment", ())],
        "notes": list(dict.fromkeys(note for document in answered for note in document["notes"])),
        "ready": len(answered) == len(documents) and all(document.get("ready") for document in answered),
        "peers": sorted({peer for document in answered for peer in document.get("peers", ())}),
        "outages": list({each["name"]: each for document in answered for each in document.get("outages", ())}.values()),
        "objectStore": _merge_requests([told for each in answered if (told := each.get("objectStore")) is not None]),
        "inProcessSeconds": max((each.get("inProcessSeconds") or 0.0 for each in answered), default=None),
        "usualProcessSeconds": max((each.get("usualProcessSeconds") or 0.0 for each in answered), default=None),
        "kafkaSecretChanged": any(each.get("kafkaSecretChanged") for each in answered),
        "client": next((each["client"] for each in answered if "client" in each), None),
        "dataPath": next((each["dataPath"] for each in answered if "dataPath" in each), None),
        "hanging": [hang for document in answered for hang in document.get("hanging", ())],
        "subTopologies": [
            {**each, "instance": document["instance"]}
            for document in answered
            for each in document.get("subTopologies", ())
        ],
        "instances": [
            {
                "instance": name,
                "state": None if document is None else document["state"],
                "generation": None if document is None else document["generation"],
                "dataPath": None if document is None else document.get("dataPath"),
            }
            for name, document in documents.items()
        ],
    }


def _merge_requests(told: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Adds up the requests of instances to their object store; ``None`` if none has one."""
    if not told:
        return None
    requests: Counter[str] = Counter()
    for each in told:
        requests.update(each["requests"])
    throttled_at = max((at for each in told if (at := each["throttledAt"]) is not None), default=None)
    throttled = sum(each["throttled"] for each in told)
    return {"requests": dict(requests), "throttled": throttled, "throttledAt": throttled_at}


def merge_probes(reasons: Mapping[str, str | None]) -> tuple[bool, str]:
    """Merges probes: all must be well; ``None`` stands for no complaint."""
    bad = [f"{name}: {reason}" for name, reason in reasons.items() if reason is not None]
    return not bad, "; ".join(bad) or "all instances are ready"


def merge_metrics(texts: Mapping[str, str], own: Iterable[Metric] = ()) -> bytes:
    """Merges metrics into one exposition; each sample is labelled with its instance."""
    families: dict[str, Metric] = {}
    for instance, text in texts.items():
        for family in text_string_to_metric_families(text):
            joined = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                joined.add_sample(sample.name, {**sample.labels, "instance": instance}, sample.value)
    registry = CollectorRegistry()
    registry.register(_Families([*families.values(), *own]))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families
