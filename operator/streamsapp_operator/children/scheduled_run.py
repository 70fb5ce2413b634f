"""Builds the CronJob of ``spec.spark.schedule``: runs that catch up and end. Pure.

Called by ``revision`` and ``render``. A run is one pod, in which Spark's driver and executors are one process each
(decision 27). It has everything of the application's pods. Its report at the end is its container's termination
message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamsapp.manifest.model import SparkSpec, StreamsApp
from streamsapp_operator.children.names import REVISION_LABEL, Owner, cron_job_name, run_labels
from streamsapp_operator.children.pod_template import REPORT_PATH
from streamsapp_operator.children.run_to_completion import run_to_completion, runtime_container
from streamsapp_operator.children.spark_job import job_spec
from streamsapp_operator.children.spark_pods import LOCAL_PAGES, cores_of, heaps

#: A run that ended is kept until the next one has, for its log.
_KEPT = 1
_LOOPBACK = "127.0.0.1"


def run_template(app: StreamsApp, template: dict[str, Any]) -> dict[str, Any]:
    """Returns the pod template of a run; ``template`` is that of the application with the other engine."""
    runtime, name = runtime_container(template), LOCAL_PAGES["name"]
    options = {"--master": f"local[{cores_of(app)}]", "--http-host": _LOOPBACK, "--report": REPORT_PATH}
    conf = (part for key, value in heaps(app).items() for part in ("--conf", f"{key}={value}"))
    changes = {
        "args": [*runtime["args"], *(part for option in options.items() for part in option), *conf],
        "env": [*(each for each in runtime["env"] if each["name"] != name), LOCAL_PAGES],
    }
    revision = template["metadata"]["labels"][REVISION_LABEL]
    return run_to_completion(template, run_labels(app.metadata.name, revision), changes)


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """The line of cron by which runs begin, their pod template, and how long one may take."""

    schedule: str
    template: dict[str, Any]
    deadline_seconds: int = SparkSpec().deadline_seconds


def cron_job(owner: Owner, run: ScheduledRun, *, begins: bool, replaces: bool) -> dict[str, Any]:
    """Returns the CronJob; no run begins unless ``begins``, nor beside another one, whose place it takes if it
    ``replaces`` that."""
    labels = run.template["metadata"]["labels"]
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": owner.metadata(cron_job_name(owner.name), labels),
        "spec": {
            "schedule": run.schedule,
            "timeZone": "Etc/UTC",
            # One that takes longer than the time between two is not begun a second time beside itself.
            "concurrencyPolicy": "Replace" if replaces else "Forbid",
            "suspend": not begins,
            "successfulJobsHistoryLimit": _KEPT,
            "failedJobsHistoryLimit": _KEPT,
            "jobTemplate": {"metadata": {"labels": labels}, "spec": job_spec(run.template, run.deadline_seconds)},
        },
    }
