"""The operator's loop in a made-up cluster: observe, plan, write the status, act; it may die in between."""

from __future__ import annotations

from collections import Counter

from restart_truth import RestartTruth
from simulated_cluster import RefusedError, SimulatedCluster, is_known
from streamsapp_operator.model.actions import (
    Action,
    ApplyChildren,
    DeleteCheck,
    Evict,
    PostEvent,
    RemoveFinalizer,
    SetBudget,
    StartCheck,
)
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.plan import plan


class DiedError(Exception):
    """The operator was killed."""


class SimulatedOperator:
    """One operator after another, over one status."""

    def __init__(self, cluster: SimulatedCluster, app: DesiredState | InvalidSpec, truth: RestartTruth) -> None:
        self.cluster, self.app, self.truth = cluster, app, truth
        self.status = AppStatus()
        self.written = [self.status]
        #: Probability of dying before each step, and of a call of the API server that fails.
        self.deadly, self.failing = 0.0, 0.0
        self.alive_since = cluster.now
        self.told: Counter[str] = Counter()
        self.trace: list[str] = []
        self.released = False
        #: The budget is open although the application is not safe: a pod is replaced that holds nothing.
        self.opens_for_itself = False

    def reconcile(self) -> None:
        """One look and what follows; then a second or so passes."""
        try:
            self._turn()
        except DiedError:
            self.cluster.run(self.cluster.rng.uniform(0.5, 6))
            self.alive_since = self.cluster.now
        except RefusedError:
            pass
        self.cluster.run(self.cluster.rng.uniform(0.5, 1.2))

    def _turn(self) -> None:
        seen = self.cluster.observe()
        self._pass(0.4)
        planned = plan(self.app, seen, from_document(to_document(self.status)), self.cluster.now)
        self._call()
        evicts = any(isinstance(action, Evict) for action in planned.actions)
        self.opens_for_itself = evicts and not planned.status.restart.safe
        self.status = planned.status
        self.written.append(planned.status)
        for action in planned.actions:
            if isinstance(action, PostEvent):
                self.told[action.reason] += 1
        for action in planned.actions:
            self._pass(0.3)
            self._act(action)

    def _pass(self, most: float) -> None:
        """Time passes between any two steps, and each may be the last."""
        if self.cluster.rng.random() < 0.3:
            self.cluster.run(self.cluster.rng.uniform(0, most))
        if self.cluster.rng.random() < self.deadly:
            raise DiedError

    def _call(self) -> None:
        if self.cluster.rng.random() < self.failing:
            raise RefusedError("the API server is away")

    def _act(self, action: Action) -> None:
        if isinstance(action, PostEvent):
            return
        self._call()
        self.trace.append(f"{self.cluster.now:.2f} {action}")
        until = action.until if isinstance(action, Evict | ApplyChildren) else None
        if until is not None and self.cluster.now > until:
            raise RefusedError("too late")
        match action:
            case ApplyChildren():
                self._apply(action)
            case SetBudget(most):
                self.cluster.set_budget(most)
            case Evict():
                self._evict(action)
            case StartCheck(revision):
                self.cluster.start_check(revision)
            case DeleteCheck(revision):
                self.cluster.drop_check(revision)
            case RemoveFinalizer():
                self.released = True
            case _:
                pass

    def _apply(self, action: ApplyChildren) -> None:
        """Fewer replicas take pods, unless all go: that is for the user to know."""
        before = self.cluster.replicas or 0
        if 0 < action.replicas < before:
            for ordinal in range(action.replicas, before):
                pod = self.cluster.pods.get(ordinal)
                if pod is not None and not pod.terminating:
                    self.truth.took(pod, was_ready=pod.answers, leaving=lambda it: not is_known(it, action.revision))
        self.cluster.apply(action)

    def _evict(self, action: Evict) -> None:
        pod = next((it for it in self.cluster.pods.values() if it.name == action.pod), None)
        was_ready, was_ending = pod is not None and pod.answers, pod is not None and pod.terminating
        evicted = self.cluster.evict_for(action)
        if not was_ending:
            revision = self.cluster.template or ""
            self.truth.took(evicted, was_ready=was_ready, leaving=lambda it: not is_known(it, revision))
