"""The operator's Prometheus metrics, of itself and of its applications.

Written on the loops' threads, read on those of the HTTP server. docs/metrics.md lists the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamsapp_operator.model.status import AppStatus, Phase

# They would be a series for each series.
disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class _Seen:
    status: AppStatus
    wanted_replicas: int | None


class OperatorMetrics:
    """All metrics of the operator."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.reconcile_seconds = Histogram(
            "streamsapp_operator_reconcile_seconds",
            "A reconcile of an application.",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self._registry,
        )
        self.errors = Counter(
            "streamsapp_operator_reconcile_errors",
            "Turns that failed: conflict, refused, unavailable, definition, or error.",
            ["kind"],
            registry=self._registry,
        )
        self._requests = Counter(
            "streamsapp_operator_api_requests",
            "Requests to the API server.",
            ["verb", "resource", "code"],
            registry=self._registry,
        )
        self.leader = Gauge("streamsapp_operator_leader", "Whether this operator leads.", registry=self._registry)
        self.watch_behind = Gauge(
            "streamsapp_operator_watch_behind_seconds",
            "For how long a watcher has missed what a list shows.",
            registry=self._registry,
        )
        self.loop_age = Gauge(
            "streamsapp_operator_loop_age_seconds",
            "For how long the slowest loop of an application has made no step.",
            registry=self._registry,
        )
        self._left_alone_number = Gauge(
            "streamsapp_operator_applications_left_alone",
            "Applications that are left alone, as the cluster's StreamsApp resource is older than they or the"
            " operator.",
            registry=self._registry,
        )
        self._left_alone: dict[tuple[str, str], str] = {}
        self._apps: dict[tuple[str, str], _Seen] = {}
        self._registry.register(_Apps(self._apps))

    def heard(self, verb: str, resource: str, code: str) -> None:
        """Counts a request to the API server."""
        self._requests.labels(verb, resource, code).inc()

    def saw(self, key: tuple[str, str], status: AppStatus, wanted_replicas: int | None) -> None:
        """Takes the status of an application."""
        self._apps[key] = _Seen(status, wanted_replicas)

    def leave_alone(self, key: tuple[str, str], why: str | None) -> None:
        """Notes why nothing is done about an application; ``None``: something is."""
        if why is None:
            self._left_alone.pop(key, None)
        else:
            self._left_alone[key] = why
        self._left_alone_number.set(len(self._left_alone))

    @property
    def left_alone_text(self) -> str:
        """Returns how many applications nothing is done about, and why of one; empty if there is none."""
        said = list(self._left_alone.values())
        return f"leaves {len(said)} StreamsApps as they are: {said[0]}" if said else ""

    def forget(self, key: tuple[str, str]) -> None:
        """Forgets an application that is gone."""
        self._apps.pop(key, None)
        self.leave_alone(key, None)

    def render(self) -> bytes:
        """Returns the text of ``/metrics``."""
        return generate_latest(self._registry)


class _Apps(Collector):
    """The applications' own figures; a figure that is not known has no sample."""

    def __init__(self, apps: dict[tuple[str, str], _Seen]) -> None:
        self._apps = apps

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        families = {name: GaugeMetricFamily(f"streamsapp_app_{name}", text, labels=["namespace", "name", *labels])
                    for name, text, labels in _FAMILIES}  # fmt: skip
        for key, seen in list(self._apps.items()):
            for name, labels, value in _samples(seen):
                families[name].add_metric([*key, *labels], value)
        yield from families.values()


_FAMILIES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("restart_safe", "Whether a pod may be taken away.", ()),
    ("restart_blockers", "Reasons why no pod may be taken away.", ()),
    ("replicas", "Pods: wanted by the spec, existing, ready.", ("state",)),
    ("tasks", "Tasks: active, running, restoring, standby.", ("state",)),
    ("input_lag", "Records that wait to be processed.", ()),
    ("standby_lag", "Records that the worst standby is behind.", ()),
    ("rollout_phase", "1 for the phase that the last rollout is in.", ("phase",)),
    ("rollout_pods_updated", "Pods of the revision that is rolled out.", ()),
    ("rollout_step_predicted_seconds", "What the last step was to cost.", ()),
    ("rollout_step_observed_seconds", "What it cost.", ()),
    ("condition", "1: true, 0: false, -1: unknown.", ("type",)),
)
_TRUTH = {"True": 1.0, "False": 0.0, "Unknown": -1.0}


def _samples(seen: _Seen) -> Iterator[tuple[str, tuple[str, ...], float]]:
    status = seen.status
    yield "restart_safe", (), float(status.restart.safe)
    yield "restart_blockers", (), float(len(status.restart.blockers) + status.restart.more_blockers)
    replicas = {"wanted": seen.wanted_replicas, "existing": status.replicas, "ready": status.ready_replicas}
    for state, number in replicas.items():
        if number is not None:
            yield "replicas", (state,), float(number)
    for state in ("active", "running", "restoring", "standby"):
        yield "tasks", (state,), float(getattr(status.tasks, state))
    if status.input_lag is not None:
        yield "input_lag", (), float(status.input_lag)
    if status.standby_lag is not None:
        yield "standby_lag", (), float(status.standby_lag)
    for condition in status.conditions:
        yield "condition", (condition.type,), _TRUTH[condition.status]
    rollout = status.rollout
    if rollout is None:
        return
    for phase in get_args(Phase):
        yield "rollout_phase", (phase,), float(rollout.phase == phase)
    yield "rollout_pods_updated", (), float(rollout.updated)
    if rollout.predicted_seconds is not None:
        yield "rollout_step_predicted_seconds", (), rollout.predicted_seconds
    if rollout.observed_seconds is not None:
        yield "rollout_step_observed_seconds", (), rollout.observed_seconds
