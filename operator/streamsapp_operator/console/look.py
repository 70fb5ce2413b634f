"""One look at one application, as its viewer may see it. Plain data, and the gate's view of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.gap_prediction import predictor_of
from streamsapp_operator.gate import Gate
from streamsapp_operator.kube.kinds import Object
from streamsapp_operator.model.observed_state import ChildrenSeen, ObservedState, PodSeen
from streamsapp_operator.plugin.documents import AppPod, PodAnswer, StreamsAppSummary, read_app, read_pod


@dataclass(frozen=True)
class Look:
    """Everything that the page of an application is made of."""

    at: float
    document: Object
    #: As the API server has them; ``None``: the viewer may not see them.
    pods: Sequence[Object] | None = ()
    #: The pods that run tasks, with their own reports.
    seen: tuple[PodSeen, ...] = ()
    driver: PodSeen | None = None
    events: Sequence[Object] = ()
    #: Parts that the viewer may not see, and why.
    notes: Sequence[str] = ()
    #: The viewer may change the application.
    may_change: bool = False

    @cached_property
    def app(self) -> StreamsAppSummary:
        return read_app(self.document)

    @cached_property
    def app_pods(self) -> list[AppPod]:
        return [read_pod(each, PodAnswer()) for each in self.pods or ()]

    @cached_property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    @cached_property
    def gate(self) -> Gate:
        """The rule by which the operator takes pods, at what the viewer sees."""
        accepted = self.app.status.accepted
        children = ChildrenSeen(replicas=self.app.status.target_replicas)
        observed = ObservedState(self.at, children, self.seen, driver=self.driver)
        rollout = RolloutSpec() if accepted is None else accepted.rollout
        return Gate(observed, rollout, gaps=predictor_of(self.app.status.observed_gaps, self.seen))

    @property
    def heard(self) -> bool:
        """Some pod reported itself."""
        return any(pod.report is not None for pod in self.seen)
