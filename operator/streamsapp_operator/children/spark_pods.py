"""Builds the pods of ``engine: spark``: executors, and a driver that is Spark's master too. Pure; called by
``revision`` and ``render``.

Both are made of the pod that runs the application with the other engine, so they have its secrets, code, account and
restrictions. An executor's container is Spark's own program, a worker of its standalone mode: it needs no token of the
API server. A program that talks to them has to know the word that lies beside the HTTP token.
"""

from __future__ import annotations

from typing import Any

from streamsapp.manifest.model import StreamsApp
from streamsapp.manifest.quantity import parse_quantity
from streamsapp_operator.children.names import (
    CONTAINER,
    DRIVER,
    EXECUTOR,
    NAME_LABEL,
    PROGRAM_LABEL,
    ROLE_LABEL,
    SPARK_WORD,
    SPARK_WORD_VARIABLE,
    Owner,
    driver_name,
    http_secret_name,
)
from streamsapp_operator.children.restricted import CONTAINER_SECURITY

MASTER_PORT, WORKER_PORT = 7077, 7078
_STATE_DIR = "/var/lib/streamsapp"
_CORES = "SPARK_TOTAL_CORES"
#: Of the master and of a worker, which only keep the books; and of the driver and an executor, unless ``spark.conf``
#: says otherwise. Python's part of a container is the larger one.
_DAEMON_MEMORY, _HEAP = "192m", "512m"
#: So many seconds the first batch waits for all executors; then it begins with those there are.
_EXECUTORS_COME = 60
#: The master's page; its own port is the driver's here.
_PAGE = ("--webui-port", "8081")
#: Runs a program of Spark's that listens at the pod's address, which needs brackets if it is one of IPv6. In a cluster
#: of both families the driver's name has addresses of both, and its master listens at the one of the pods' family.
_AT_POD_IP = (
    'case "$POD_IP" in'
    ' *:*) host="[$POD_IP]"; preferred=-Djava.net.preferIPv6Addresses=true;'
    ' export SPARK_DAEMON_JAVA_OPTS="${SPARK_DAEMON_JAVA_OPTS-} $preferred";;'
    ' *) host="$POD_IP";;'
    ' esac; exec spark-class "$@" --host "$host"'
)
_SPARK_CLASS = ("sh", "-c", _AT_POD_IP, "spark-class")
#: Pages of Spark's programs are for users who forward a port.
LOCAL_PAGES = {"name": "SPARK_LOCAL_IP", "value": "127.0.0.1"}
#: A master that is gone comes back at the same name with another address, however long that takes.
_WORKER_OPTIONS = (
    "-Dspark.authenticate=true -Dspark.worker.preferConfiguredMasterAddress=true"
    " -Dspark.worker.initialRegistrationRetries=1000000 -Dspark.worker.maxRegistrationRetries=1000000"
    " -Dspark.worker.cleanup.enabled=true -Dsun.net.inetaddr.ttl=1 -Dsun.net.inetaddr.negative.ttl=1"
)


def cores_of(app: StreamsApp) -> int:
    """Returns the number of tasks that an executor runs at a time: its whole cores."""
    given = app.spec.resources.requests | app.spec.resources.limits
    return max(1, int(parse_quantity(given.get("cpu", 1)) or 0))


def heaps(app: StreamsApp) -> dict[str, str]:
    """Returns Spark's settings of Java's heaps, as far as the manifest does not have them."""
    defaults = {"spark.driver.memory": _HEAP, "spark.executor.memory": _HEAP}
    return {key: value for key, value in defaults.items() if key not in app.spec.spark.conf}


def program_parts(app: StreamsApp, template: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the parts of the pods, beside code and manifest, that a driver and its executors must have in common:
    what their containers run and read, not how much of a machine they have, nor where. Executors of one program may be
    replaced one by one. User code may also come by a container or a volume of ``spec.podTemplate``."""
    spec, runtime = template["spec"], _container(template)
    made = [_container(each(app, template, "")) for each in (executor_template, driver_template)]
    beside = [each for each in (*spec.get("initContainers", ()), *spec["containers"]) if each is not runtime]
    sized = [{name: value for name, value in each.items() if name != "resources"} for each in (*made, *beside)]
    return [*sized, *(each for each in spec["volumes"] if "emptyDir" not in each)]  # those are empty at first


def executor_template(app: StreamsApp, template: dict[str, Any], program: str) -> dict[str, Any]:
    """Returns the pod template of the executors; ``template`` is that of the application with the other engine,
    ``program`` the hash of what they have in common with their driver."""
    arguments = {
        "--port": str(WORKER_PORT),
        "--cores": str(cores_of(app)),
        "--memory": "1024g",  # Spark's own books: the container has the limit
        "--work-dir": f"{_STATE_DIR}/spark",
    }
    changes = {
        "command": [*_SPARK_CLASS],
        "args": [
            "org.apache.spark.deploy.worker.Worker",
            *(part for argument in arguments.items() for part in argument),
            f"spark://{driver_name(app.metadata.name)}-0.{app.metadata.name}:{MASTER_PORT}",
        ],
        "ports": [{"name": "spark", "containerPort": WORKER_PORT, "protocol": "TCP"}],
        "startupProbe": _probe("spark", every=1, failures=120),
        "livenessProbe": _probe("spark", every=10, failures=6),
        "readinessProbe": _probe("spark", every=1, failures=3),
    }
    uid = {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}  # the driver learns who came
    own = _daemon(app) | {
        "SPARK_WORKER_OPTS": {"name": "SPARK_WORKER_OPTS", "value": _WORKER_OPTIONS},
        "POD_UID": uid,
    }
    return _changed(template, EXECUTOR, changes, own, {PROGRAM_LABEL: program})


def driver_template(app: StreamsApp, template: dict[str, Any], program: str) -> dict[str, Any]:
    """Returns the pod template of the driver. The master ends after it, and is there before it."""
    given = _container(template)
    changes = {
        "args": [
            *given["args"],
            *("--master", f"spark://$(POD_IP):{MASTER_PORT}"),
            *(part for key, value in _settings(app).items() for part in ("--conf", f"{key}={value}")),
        ]
    }
    own = {SPARK_WORD_VARIABLE: _word(app), "SPARK_LOCAL_IP": LOCAL_PAGES}
    made = _changed(template, DRIVER, changes, own, {PROGRAM_LABEL: program})
    made["spec"]["initContainers"] = [*made["spec"].get("initContainers", ()), _master(app, _container(made))]
    return made


def driver_set(owner: Owner, template: dict[str, Any], cores: int, replicas: int, *, runs: bool) -> dict[str, Any]:
    """Returns the StatefulSet of the driver. It has at most one pod, which is replaced when the number of executors
    changes: a query has as many lanes as there are cores."""
    own = {NAME_LABEL: owner.name, ROLE_LABEL: DRIVER}
    total = {_CORES: {"name": _CORES, "value": str(max(1, replicas) * cores)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": owner.metadata(driver_name(owner.name)),
        "spec": {
            "replicas": int(runs),
            "serviceName": owner.name,
            "selector": {"matchLabels": own},
            "revisionHistoryLimit": 1,
            "template": _changed(template, DRIVER, {}, total, {}),
        },
    }


def _settings(app: StreamsApp) -> dict[str, str]:
    """Returns Spark's settings: the ones that the manifest may change, and the ones that belong to these pods."""
    return heaps(app) | {
        "spark.driver.host": "$(POD_IP)",
        "spark.authenticate": "true",
        "spark.authenticate.secret": f"$({SPARK_WORD_VARIABLE})",
        "spark.executor.cores": str(cores_of(app)),
        "spark.cores.max": f"$({_CORES})",
        "spark.default.parallelism": f"$({_CORES})",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{_EXECUTORS_COME}s",
        "spark.ui.killEnabled": "false",
    }


def _master(app: StreamsApp, runtime: dict[str, Any]) -> dict[str, Any]:
    """Returns Spark's master as a sidecar; no code of the user runs in it."""
    own = {"POD_IP": _variable(runtime, "POD_IP"), **_daemon(app)}
    own["SPARK_MASTER_OPTS"] = {"name": "SPARK_MASTER_OPTS", "value": "-Dspark.authenticate=true"}
    return {
        "name": "master",
        "image": runtime["image"],
        "imagePullPolicy": runtime["imagePullPolicy"],
        "restartPolicy": "Always",
        "command": [*_SPARK_CLASS],
        "args": ["org.apache.spark.deploy.master.Master", "--port", str(MASTER_PORT), *_PAGE],
        "env": list(own.values()),
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
        "securityContext": CONTAINER_SECURITY | {"readOnlyRootFilesystem": True},
        "startupProbe": _probe(MASTER_PORT, every=1, failures=120),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }


def _daemon(app: StreamsApp) -> dict[str, dict[str, Any]]:
    """Returns the environment of Spark's own programs, by name."""
    memory = {"name": "SPARK_DAEMON_MEMORY", "value": _DAEMON_MEMORY}
    return {"SPARK_DAEMON_MEMORY": memory, "SPARK_LOCAL_IP": LOCAL_PAGES, SPARK_WORD_VARIABLE: _word(app)}


def _word(app: StreamsApp) -> dict[str, Any]:
    secret = {"name": http_secret_name(app.metadata.name), "key": SPARK_WORD}
    return {"name": SPARK_WORD_VARIABLE, "valueFrom": {"secretKeyRef": secret}}


def _changed(
    template: dict[str, Any],
    role: str,
    changes: dict[str, Any],
    own: dict[str, dict[str, Any]],
    labels: dict[str, str],
) -> dict[str, Any]:
    """Returns the template with other labels, and with changes of the container that runs the application; ``own`` are
    variables of its environment."""
    metadata, spec = template["metadata"], template["spec"]
    runtime = _container(template)
    others = [each for each in runtime["env"] if each["name"] not in own]
    container = {**runtime, **changes, "env": [*own.values(), *others]}
    containers = [container if each is runtime else each for each in spec["containers"]]
    labelled = metadata["labels"] | {ROLE_LABEL: role} | labels
    return {"metadata": {**metadata, "labels": labelled}, "spec": {**spec, "containers": containers}}


def _container(template: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in template["spec"]["containers"] if each["name"] == CONTAINER)
    return found


def _variable(runtime: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in runtime["env"] if each["name"] == name)
    return found


def _probe(port: str | int, *, every: int, failures: int) -> dict[str, Any]:
    return {"tcpSocket": {"port": port}, "periodSeconds": every, "timeoutSeconds": 5, "failureThreshold": failures}
