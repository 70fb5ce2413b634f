"""Decides about the runs of ``spec.spark.schedule``: when they may begin, and what the status says of them. Pure.

An application that runs by a schedule has no pods but those of a run. Pods of other revisions end before the first run
begins; a run ends, and then the CronJob is gone, before the first pod of another revision starts.
"""

from __future__ import annotations

from streamsapp.manifest.schedule import parse_schedule
from streamsapp_operator.model.observed_state import JobState
from streamsapp_operator.model.status import ScheduleStatus
from streamsapp_operator.plan.engine_switch import driver_is_there
from streamsapp_operator.plan.plan_input import PlanInput, moment


def leads_to(inputs: PlanInput, revision: str | None) -> bool:
    """Says whether a revision runs by a schedule."""
    if revision == inputs.settings.revision:
        return inputs.settings.schedule is not None
    if revision == inputs.status.last_good_revision:
        return inputs.status.last_good_scheduled
    return revision is not None and inputs.observed.children.schedule_revision == revision


def are_alone(inputs: PlanInput) -> bool:
    """Says whether nothing else of the application runs or is to run."""
    return not (inputs.pods or inputs.observed.children.replicas or driver_is_there(inputs.observed))


def may_begin(inputs: PlanInput) -> bool:
    """Says whether a run may begin when it is due."""
    return are_alone(inputs) and inputs.settings.replicas > 0


def is_over(inputs: PlanInput) -> bool:
    """Says whether there is a CronJob without a working run: where none is wanted any more it may go. A run that begins
    at this moment ends in order then, before the first pod starts."""
    run = inputs.observed.run
    return inputs.observed.children.schedule_revision is not None and (run is None or not run.may_work)


def told(inputs: PlanInput, *, begins: bool) -> ScheduleStatus:
    """Returns what is known of the runs; the last one is remembered when its Job is gone."""
    last, seen = inputs.status.schedule or ScheduleStatus(), inputs.observed.run
    schedule = inputs.settings.schedule
    following = parse_schedule(schedule).after(inputs.time) if begins and schedule is not None else None
    if seen is None:
        return ScheduleStatus(
            last_run=last.last_run,
            # Its Job was deleted while it ran.
            result="Failed" if last.result == "Running" else last.result,
            message="its Job was deleted" if last.result == "Running" else last.message,
            input_lag=last.input_lag,
            next_run=following,
        )
    state = seen.job.state
    ended = state in {JobState.DONE, JobState.FAILED}
    return ScheduleStatus(
        last_run=moment(seen.started_at),
        result="Succeeded" if state is JobState.DONE else "Failed" if state is JobState.FAILED else "Running",
        message=seen.job.message,
        input_lag=seen.input_lag if ended else last.input_lag,
        next_run=following,
    )
