"""The input of every rule of the plan. Pure values, made once per reconcile."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.gate import Gate
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.model.observed_state import ObservedState, PodSeen
from streamsapp_operator.model.status import Accepted, AppStatus, Restart


@dataclass(frozen=True, slots=True)
class PlanInput:
    """The application, its observed state and its status at one moment."""

    app: DesiredState | InvalidSpec
    #: By what it runs: the spec, or while that is invalid the last valid one.
    settings: Accepted
    #: ``at`` is ``now``: so old is everything in it.
    observed: ObservedState
    #: The time when the observation began: pods were listed after that.
    looked_at: float
    #: As it was left.
    status: AppStatus
    now: float
    gate: Gate
    restart: Restart

    @property
    def pods(self) -> tuple[PodSeen, ...]:
        return self.observed.pods

    @property
    def time(self) -> datetime:
        """The time ``now``, as the status has it."""
        return moment(self.now)

    def pod(self, name: str | None) -> PodSeen | None:
        """Returns the pod of this name, ``None`` if there is none."""
        return next((pod for pod in self.pods if pod.name == name), None)

    def since(self, begin: datetime | None) -> float:
        """Returns the seconds from ``begin`` until now; a clock that went back makes them fewer, never negative."""
        return 0.0 if begin is None else max(0.0, self.now - begin.timestamp())


def moment(seconds: float) -> datetime:
    """Returns a time as the status has it."""
    return datetime.fromtimestamp(seconds, UTC)


def settings_of(app: DesiredState | InvalidSpec, status: AppStatus, observed: ObservedState) -> Accepted | None:
    """Returns the settings by which the application runs; ``None`` if it never had a valid spec, and nothing runs."""
    if isinstance(app, DesiredState):
        return Accepted(
            revision=app.revision,
            replicas=app.replicas,
            standby_replicas=app.standby_replicas,
            rollout=app.rollout,
            autoscaling=app.autoscaling,
            has_remote_state=app.has_remote_state,
            snapshot_interval_seconds=app.snapshot_interval_seconds,
            bootstrap=app.bootstrap,
            preview=app.preview,
            engine=app.engine,
            program=app.program,
            schedule=app.schedule,
            restart_on_change=app.restart_on_change,
        )
    if status.accepted is not None:
        return status.accepted
    children = observed.children
    if children.template_revision is None or children.replicas is None:
        return None
    # Its limits are not known any more: the narrowest are safe.
    narrow = RolloutSpec(max_standby_lag=0, max_restore_seconds=0)
    return Accepted(revision=children.template_revision, replicas=children.replicas, rollout=narrow)
