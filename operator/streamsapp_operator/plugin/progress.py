"""Reports the progress of a rolling restart. Pure: one status after another in, lines out.

Driven by ``restart --wait`` on the main thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from streamsapp_operator.model.status import AppStatus, Blocker, RolloutStatus
from streamsapp_operator.plugin.documents import seconds_since
from streamsapp_operator.plugin.status_view import blockers_table
from streamsapp_operator.plugin.style import Style, Tone
from streamsapp_operator.plugin.text import brief, clean, gap, plural, seconds

_OVER = {"Complete", "TimedOut", "RolledBack", "Refused"}
#: Changes of lag alone are not reported again.
_Why = tuple[tuple[str, str | None, str | None, str], ...]


class Follower:
    """Follows the rollout that begins after ``before``."""

    def __init__(self, before: AppStatus, style: Style) -> None:
        self._style = style
        self._old = _identity(before.rollout)
        self._last: RolloutStatus | None = None
        self._failure: str | None = None
        self._why: _Why = ()

    @property
    def begun(self) -> bool:
        """Says whether the operator has taken the restart up."""
        return self._last is not None

    @property
    def outcome(self) -> str | None:
        """The phase in which the rollout ended."""
        if self._failure is not None:
            return "BootstrapFailed"
        return self._last.phase if self._last is not None and self._last.phase in _OVER else None

    def update(self, status: AppStatus, at: datetime) -> Iterator[str]:
        """Yields lines about every change since the last status; ``at`` is now."""
        now = status.rollout
        if now is None or (self._last is None and _identity(now) == self._old):
            return
        before = self._last if self._last is not None and self._last.revision == now.revision else None
        self._last, self._failure = now, _failed_bootstrap(status, now)
        yield from self._phase(before, now)
        yield from self._pods(before, now, at)
        yield from self._blocked(status, now)

    def _phase(self, before: RolloutStatus | None, now: RolloutStatus) -> Iterator[str]:
        if before is None:
            yield self._line("", f"taken up: the new revision is {clean(now.revision)}")
        said = _SAID.get(now.phase)
        if said is not None and (before is None or before.phase != now.phase):
            yield self._line("", said, Tone.WARN if now.phase == "RollingBack" else Tone.PLAIN)

    def _pods(self, before: RolloutStatus | None, now: RolloutStatus, at: datetime) -> Iterator[str]:
        left, taken = (before.current if before is not None else None), now.current
        over = now.phase in _OVER
        if before is not None and left is not None and (left != taken or over) and now.updated > before.updated:
            yield self._line(left, _returned(before, now, at), Tone.GOOD)
        if taken is not None and taken != left and not over:
            said = "is restarted"
            if now.predicted_seconds is not None:
                said += f"; its tasks are predicted to run again after {gap(now.predicted_seconds)}"
            yield self._line(taken, said)

    def _blocked(self, status: AppStatus, now: RolloutStatus) -> Iterator[str]:
        waits = now.phase == "Blocked"
        why: _Why = tuple((each.pod, each.task, each.store, each.reason.split()[0]) for each in _listed(status, waits))
        if why and why != self._why:
            yield self._line("", "waits, as no pod may be taken away:", Tone.WARN)
            yield from blockers_table(status.restart.blockers, self._style)
        self._why = why

    def _line(self, pod: str, said: str, tone: Tone = Tone.PLAIN) -> str:
        return "  " + self._style.paint(f"{clean(pod)}  {said}" if pod else said, tone)

    def now_line(self, at: datetime) -> str:
        """Returns the present state in one line, which the next one overwrites."""
        last = self._last
        if last is None:
            return "  waiting for the operator to take it up"
        parts = [f"{last.updated} of {last.total}"] if last.total else []
        if last.phase == "Blocked":
            parts.append(f"blocked for {seconds(seconds_since(last.blocked_since, at))}")
        elif last.current is not None:
            parts.append(f"{clean(last.current)} away for {seconds(seconds_since(last.step_started_at, at))}")
            if last.observed_seconds is not None:
                parts.append("its tasks run")
        else:
            parts.append(last.phase.lower())
        return "  " + self._style.between.join(parts)

    def verdict(self, took: float) -> str:
        """Returns the last line."""
        last = self._last
        assert last is not None, "only asked once there is an outcome"
        if last.phase == "Complete":
            said = f"done: {last.updated} of {plural(last.total, 'pod')} restarted in {seconds(took)}"
            return self._style.paint(said, Tone.GOOD)
        if self._failure is not None:
            return self._style.paint(f"the bootstrap failed: {brief(clean(self._failure))}", Tone.BAD)
        said = f"{_ENDS[last.phase]}: {brief(clean(last.message))}" if last.message else _ENDS[last.phase]
        return self._style.paint(said, Tone.BAD)


def _failed_bootstrap(status: AppStatus, rollout: RolloutStatus) -> str | None:
    """Returns why this rollout does not begin."""
    bootstrap = status.bootstrap
    if rollout.phase != "Bootstrapping" or bootstrap is None or bootstrap.phase != "Failed":
        return None
    return bootstrap.message or "it does not say why"


def _returned(before: RolloutStatus, now: RolloutStatus, at: datetime) -> str:
    """Reports how a step went: its tasks run elsewhere long before the pod is back and has caught up."""
    said = f"is back after {seconds(seconds_since(before.step_started_at, at))}"
    ran = now.observed_seconds if now.observed_seconds is not None else before.observed_seconds
    if ran is not None:
        said += f"; its tasks ran again after {gap(ran)}"
    if before.predicted_seconds is not None:
        said += f", predicted {gap(before.predicted_seconds)}"
    return f"{said}   {now.updated} of {now.total}"


def _listed(status: AppStatus, waits: bool) -> tuple[Blocker, ...]:
    return status.restart.blockers if waits else ()


def _identity(rollout: RolloutStatus | None) -> tuple[str, datetime | None] | None:
    return None if rollout is None else (rollout.revision, rollout.started_at)


_SAID = {
    "Checking": "a pod checks the new revision first; nothing else is touched",
    "Bootstrapping": "a Job makes state of history first; no pod is started before it is done",
    "Paused": "it waits for you or for a maintenance window: `kubectl streamsapp status` says for which",
    "RollingBack": "the new revision does not become ready: back to the last good one",
}
_ENDS = {
    "TimedOut": "gave up: it was never safe to take a pod away, so none was; `kubectl streamsapp status` says why",
    "RolledBack": "rolled back to the last good revision",
    "Refused": "refused, nothing was touched",
}
