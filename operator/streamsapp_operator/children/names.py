"""Gives the names, labels and owner of an application's children in one place, so that every child is found again.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamsapp.manifest.application_name import LONGEST, name_fault
from streamsapp.manifest.model import API_VERSION, KIND

NAME_LABEL = "streamsapp.dev/name"
REVISION_LABEL = "streamsapp.dev/revision"
#: On check pods instead of NAME_LABEL: no service, budget or StatefulSet may take them for the application's.
CHECK_LABEL = "streamsapp.dev/check"
#: On pods of ``engine: spark``: which part of Spark they are.
ROLE_LABEL = "streamsapp.dev/role"
DRIVER, EXECUTOR = "driver", "executor"
#: On the same pods: the hash of what a driver and its executors must have in common.
PROGRAM_LABEL = "streamsapp.dev/program"
#: On the Job of a bootstrap and its pods, for the same reason.
BOOTSTRAP_LABEL = "streamsapp.dev/bootstrap"
#: On a pod in which a command of a user runs, for the same reason.
COMMAND_LABEL = "streamsapp.dev/command"
#: On the Job of a preview and its pods.
PREVIEW_LABEL = "streamsapp.dev/preview"
#: On the CronJob of ``spec.spark.schedule``, its Jobs and their pods.
RUN_LABEL = "streamsapp.dev/run"
#: On Jobs of bootstraps and previews: what they are made of.
ATTEMPT = "streamsapp.dev/attempt"
#: On pods of others that may reach the port, to scrape metrics or to ask for state.
CLIENT_LABEL = "streamsapp.dev/client"
RESTARTED_AT = "streamsapp.dev/restartedAt"
#: "true": no pod is taken for a rollout.
PAUSED = "streamsapp.dev/paused"
#: A revision that may go on past ``spec.rollout.partition`` and ``spec.rollout.preview``.
APPROVED = "streamsapp.dev/approved"
#: The uid of a pod that is to be replaced, once that is safe; done as soon as there is no such pod.
RESTART_POD = "streamsapp.dev/restartPod"
#: ``GENERATION/REVISION``: in place of the revision of this generation of the spec an earlier one runs.
UNDONE = "streamsapp.dev/undone"
#: Keys of labels and annotations that are the operator's.
OWN_PREFIXES = ("streamsapp.dev/", "app.kubernetes.io/")

#: Of the Secret with the HTTP token: the word that the pods of ``engine: spark`` know each other by.
SPARK_WORD = "spark"
#: In which they have it: Spark reads it, and hands it on to the executors that its workers start.
SPARK_WORD_VARIABLE = "_SPARK_AUTH_SECRET"

_MANAGER = "streamsapp-operator"
#: The container that runs an application, and its only port.
CONTAINER = "runtime"
PORT = 8080


@dataclass(frozen=True, slots=True)
class Owner:
    """The application that owns the children."""

    name: str
    namespace: str
    uid: str

    def metadata(self, name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Returns the metadata of a child with this name, which is deleted with the application."""
        owner = {"apiVersion": API_VERSION, "kind": KIND, "name": self.name, "uid": self.uid, "controller": True}
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": dict(labels or own_labels(self.name)),
            "ownerReferences": [owner],
        }


def own_labels(app: str) -> dict[str, str]:
    """Returns the labels of every child except children that end by themselves."""
    return {NAME_LABEL: app, **_recommended(app, "runtime")}


def check_labels(app: str, revision: str) -> dict[str, str]:
    return {CHECK_LABEL: app, REVISION_LABEL: revision, **_recommended(app, "check")}


def bootstrap_labels(app: str, revision: str) -> dict[str, str]:
    return {BOOTSTRAP_LABEL: app, REVISION_LABEL: revision, **_recommended(app, "bootstrap")}


def command_labels(app: str) -> dict[str, str]:
    return {COMMAND_LABEL: app, **_recommended(app, "command")}


def preview_labels(app: str, revision: str) -> dict[str, str]:
    return {PREVIEW_LABEL: app, REVISION_LABEL: revision, **_recommended(app, "preview")}


def run_labels(app: str, revision: str) -> dict[str, str]:
    return {RUN_LABEL: app, REVISION_LABEL: revision, **_recommended(app, "run")}


def selector(app: str) -> dict[str, str]:
    """Returns the selector that finds the pods of an application, and nothing else."""
    return {NAME_LABEL: app}


def all_pods(app: str) -> dict[str, str]:
    """Returns the selector that finds the pods of an application and the pods that work beside them, under whatever of
    the labels above."""
    return {"app.kubernetes.io/instance": app, "app.kubernetes.io/managed-by": _MANAGER}


def config_map_name(app: str, revision: str) -> str:
    return f"{app}-{revision}"


def check_pod_name(app: str, revision: str) -> str:
    return f"{app}-check-{revision}"


def bootstrap_job_name(app: str) -> str:
    """Returns the name of the Job; an application has one, so that there never are two Jobs at once."""
    return f"{app}-bootstrap"


def preview_job_name(app: str) -> str:
    return f"{app}-preview"


def cron_job_name(app: str) -> str:
    return f"{app}-run"


def query_service_name(app: str) -> str:
    return f"{app}-query"


def driver_name(app: str) -> str:
    """Returns the name of the StatefulSet of the driver."""
    return f"{app}-driver"


def http_secret_name(app: str) -> str:
    return f"{app}-http"


def service_account_name(app: str) -> str:
    """Returns the account's name. It is not the bare name of the application, which users call the account that their
    cloud knows."""
    return f"{app}-runtime"


def name_faults(app: str, *, has_driver: bool = False) -> Iterator[str]:
    """Returns the faults in the name of an application in a cluster; ``has_driver`` with ``engine: spark``."""
    longest = LONGEST - len(driver_name("")) if has_driver else LONGEST
    driver = " and of a driver (spec.engine: spark)" if has_driver else ""
    fault = name_fault(app, longest=longest, of=f"pods and services{driver}")
    if fault is not None:
        yield f"metadata.name: {fault}"


def _recommended(app: str, component: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": app,
        "app.kubernetes.io/instance": app,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": _MANAGER,
    }
