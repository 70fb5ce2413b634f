"""Decides in which order pods end and start where Spark runs an application, and reports what a switch of engines
costs.

Pure. The broker keeps the engines apart, and refuses what the later one commits while the earlier one is there: so
everything of the one ends before the first pod of the other starts. The same holds for another program on Spark: its
executors must run the code that their driver has. The driver ends first, as it commits its batch with its executors. A
revision of the same program (a restart, another size or place of pods) needs none of that: its executors are replaced
one by one, as pods are, and its driver after them.
"""

from __future__ import annotations

from msgspec.structs import replace

from streamsapp.manifest.model import Engine
from streamsapp_operator.model.observed_state import ObservedState, PodSeen, QueryReport
from streamsapp_operator.model.status import RolloutStatus, RolloutStep, SwitchStatus
from streamsapp_operator.model.waiting_reasons import CANNOT_START
from streamsapp_operator.plan.plan_input import PlanInput

#: The seconds from the end of one engine to the first commit of the other where nothing has to be restored, before one
#: switch was observed: Spark has to start Java, its master and its executors.
START_SECONDS = {"threads": 10.0, "spark": 40.0}
_ENDED = {"Complete", "RolledBack", "Refused"}


def driver_is_there(observed: ObservedState) -> bool:
    """Says whether there is a driver, or may be one at any moment."""
    return observed.driver is not None or bool(observed.children.driver_replicas)


def why_alone(inputs: PlanInput, target: str, *, refused: bool) -> list[str]:
    """Returns why pods of two revisions must not run side by side, in words; empty if their engines and programs allow
    it. One that is refused has no pods."""
    engines = {inputs.status.engine, _running(inputs)} | (set() if refused else {inputs.settings.engine})
    if driver_is_there(inputs.observed):  # also where its executors were never made
        engines.add("spark")
    if "spark" not in engines:
        return []
    if inputs.observed.children.schedule_revision is not None:
        return ["a run that is scheduled and pods must not work at a time"]
    if len(engines) > 1:
        return ["only one engine at a time may commit"]
    programs = {it.program for it in _on_spark(inputs)} | (set() if refused else {inputs.settings.program})
    if len(programs) > 1 or None in programs:
        return ["executors and their driver must run the same code"]
    # Nothing is spared by going on with a driver that does not work, and its new revision may be what mends it.
    of_driver = inputs.observed.children.driver_revision
    works = driver_ready(inputs, of_driver) or _driver_comes_back(inputs) or of_driver == target
    return [] if works else ["the driver does not work"]


def driver_revision(inputs: PlanInput) -> str | None:
    """Returns the revision that the driver has while nothing leads to another one; ``None``: that of the executors."""
    children = inputs.observed.children
    return children.driver_revision if children.driver_replicas and children.engine == "spark" else None


def driver_is_next(inputs: PlanInput, target: str) -> bool:
    """Says whether it is the driver's turn, or was: every executor is of the target, and took part in a batch."""
    children, ordinals = inputs.observed.children, {it.ordinal for it in inputs.pods if it.revision == target}
    began = children.driver_revision == target
    replicas = children.replicas or 0
    return (began or inputs.restart.safe) and len(ordinals) == replicas and all(it < replicas for it in ordinals)


def driver_step(inputs: PlanInput, rollout: RolloutStatus, target: str) -> RolloutStatus:
    """Begins the step in which the driver is replaced, unless it is under way."""
    last, driver = rollout.driver, inputs.observed.driver
    under_way = last is not None and last.observed_seconds is None
    if driver is None or under_way or inputs.observed.children.driver_revision == target:
        return rollout
    return replace(rollout, driver=RolloutStep(pod=driver.name, started_at=inputs.time))


def measured(inputs: PlanInput, rollout: RolloutStatus, target: str) -> RolloutStatus:
    """Ends the step in which the driver is replaced, when the new one works."""
    step, works = rollout.driver, inputs.observed.driver is not None and driver_ready(inputs, target)
    if step is None or step.observed_seconds is not None or not works:
        return rollout
    return replace(rollout, driver=replace(step, observed_seconds=round(inputs.since(step.started_at), 1)))


def is_foreign(inputs: PlanInput, target: str) -> bool:
    """Says whether a pod, a driver or a scheduled run has to end before pods of the target start."""
    children = inputs.observed.children
    if children.driver_replicas and children.driver_revision != target:
        return True
    if children.schedule_revision is not None and not inputs.pods:  # beside pods it never began a run
        return True
    return any(pod.revision != target for pod in _on_spark(inputs))


def driver_ready(inputs: PlanInput, target: str | None) -> bool:
    """Says whether the driver of the target works; ``True`` if its engine has none."""
    driver, children = inputs.observed.driver, inputs.observed.children
    if not children.driver_replicas:
        return not (children.engine == "spark" and children.replicas)
    return driver is not None and driver.ready and not driver.terminating and driver.revision == target


def _driver_comes_back(inputs: PlanInput) -> bool:
    """Says whether the driver is being made again, and may be well in a moment: its node is drained, or the number of
    executors has changed. Meanwhile the gate lets no executor go, as nothing is known of them."""
    driver, rollout = inputs.observed.driver, inputs.status.rollout
    if not inputs.observed.children.driver_replicas:  # it was ended
        return False
    if driver is None or driver.terminating:
        waited = 0.0 if rollout is None else inputs.since(rollout.blocked_since)
    elif driver.restarts or driver.waiting_reason in CANNOT_START:
        return False
    else:
        waited = inputs.now - driver.created_at
    return waited < inputs.settings.rollout.progress_deadline_seconds


def followed(inputs: PlanInput, rollout: RolloutStatus, *, stops: bool, last_good: str | None) -> SwitchStatus | None:
    """Returns the switch that is under way, or the last one. It begins when the first pod is about to end."""
    last, to = inputs.status.switch, inputs.settings.engine
    begins = stops and _running(inputs) != to
    if last is not None and last.observed_seconds is None and not (begins and to != last.to_engine):
        settled = not stops and rollout.phase in _ENDED and not _waits(inputs)
        arrived = last_good == rollout.revision and to == last.to_engine
        return _ended(inputs, rollout, last, arrived) if settled else last
    if not begins:
        return last
    learned = {} if last is None else last.learned
    return SwitchStatus(
        revision=rollout.revision,
        from_engine=_running(inputs),
        to_engine=to,
        started_at=inputs.time,
        predicted_seconds=learned.get(to) or _predicted(inputs, to),
        learned=learned,
    )


def engine_of_good(inputs: PlanInput, last_good: str | None) -> Engine:
    """Returns the engine of the last good revision; before there is one, that of the spec."""
    return inputs.settings.engine if last_good in {None, inputs.settings.revision} else inputs.status.engine


def query_of(inputs: PlanInput) -> QueryReport | None:
    """Returns what the driver reports of its query; ``None`` if there is no driver, or it does not answer."""
    driver = inputs.observed.driver
    return None if driver is None or driver.report is None else driver.report.query


def _on_spark(inputs: PlanInput) -> tuple[PodSeen, ...]:
    driver = inputs.observed.driver
    return (*inputs.pods, *(() if driver is None else (driver,)))


def _running(inputs: PlanInput) -> Engine:
    return inputs.observed.children.engine or inputs.status.engine


def _waits(inputs: PlanInput) -> bool:
    return not inputs.pods or not all(pod.ready for pod in inputs.pods)


def _ended(inputs: PlanInput, rollout: RolloutStatus, switch: SwitchStatus, arrived: bool) -> SwitchStatus:
    """Returns a switch with what it took until all were well, however long they soaked then; a switch that led back
    says nothing about the next."""
    well = inputs.since(rollout.soaking_since) if arrived else 0.0
    took = round(max(0.0, inputs.since(switch.started_at) - well), 1)
    learned = switch.learned | ({switch.to_engine: took} if arrived else {})
    return replace(switch, observed_seconds=took, learned=learned)


def _predicted(inputs: PlanInput, to: Engine) -> float:
    """Returns the start of the engine, and the restores that its pods divide among themselves, as far as those are
    known."""
    tasks = [task for pod in inputs.pods if pod.report is not None for task in pod.report.tasks]
    restores = [task.predicted_restore_seconds for task in tasks if task.predicted_restore_seconds is not None]
    return round(START_SECONDS[to] + sum(restores) / max(1, inputs.settings.replicas), 1)
