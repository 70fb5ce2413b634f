"""Reads a manifest: YAML text to a ``StreamsApp``, or a ``ManifestError`` that lists every fault. Pure.

Called by the command line (a file) and by the operator (an object of the API server).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

from streamsapp.config.client_keys import check_client_keys
from streamsapp.config.known_properties import property_fault
from streamsapp.config.redaction import is_secret
from streamsapp.config.setting_checks import application_id_fault, bootstrap_servers_fault
from streamsapp.config.settings import EXACTLY_ONCE
from streamsapp.config.times import time_faults
from streamsapp.declared.faults import MAX_FAULTS, faults_of
from streamsapp.declared.graph import graph_faults
from streamsapp.declared.roles import CODE_NAME
from streamsapp.declared.steps import DeclaredSteps
from streamsapp.errors import ConfigError, ManifestError
from streamsapp.manifest.document_checks import MAX_BYTES, document_faults
from streamsapp.manifest.model import (
    AutoscalingSpec,
    BootstrapSpec,
    CodeSpec,
    ErrorsSpec,
    KafkaSpec,
    ProcessingSpec,
    Quantities,
    RemoteStateSpec,
    ResourcesSpec,
    RolloutSpec,
    SparkSpec,
    StreamsApp,
    TopicsSpec,
    TopologySource,
)
from streamsapp.manifest.quantity import parse_quantity
from streamsapp.manifest.schedule import parse_schedule
from streamsapp.manifest.settings import FIELDS, as_in_the_manifest, text
from streamsapp.manifest.sink_faults import sink_faults
from streamsapp.manifest.to_config import remote_state_config
from streamsapp.manifest.yaml_text import parse_yaml
from streamsapp.structs import converted

#: ``https://user:password@host``.
_CREDENTIALS = re.compile(r"//[^/@\s]*@")
_TOPIC_PROPERTY = re.compile(r"[a-z]+(\.[a-z]+)*")
#: The longest path of ``spec.code.files``.
_MAX_PATH = 253
#: The longest name of a file or folder, as file systems have it.
_MAX_NAME_BYTES = 255


def load(path: Path) -> StreamsApp:
    """The manifest in a file."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ManifestError([f"cannot be read: {reason}"]) from error
    return decode(parse_yaml(text))


def decode(document: object) -> StreamsApp:
    """The manifest in a decoded document; all faults are found before any is raised."""
    faults = document_faults(document)
    if faults:
        raise ManifestError(faults)
    faults = faults_of(document, StreamsApp)
    if len(faults) < MAX_FAULTS:
        faults += islice(_faults_between_fields(document, faults), MAX_FAULTS)
    if faults:
        raise ManifestError(faults)
    return converted(document, StreamsApp)


def _faults_between_fields(document: object, faults: list[str]) -> Iterator[str]:
    """Returns the faults that the type of no single field shows, in the sections of ``spec`` that are free of
    ``faults``."""
    spec = document.get("spec") if isinstance(document, dict) else None
    for name, (structure, check) in _SECTIONS.items():
        if isinstance(spec, dict) and name in spec and not any(line.startswith(f"spec.{name}") for line in faults):
            yield from check(converted(spec[name], structure))
    if isinstance(spec, dict) and not any(line.startswith(("spec.kafka", "spec.processing")) for line in faults):
        yield from _time_faults(spec)
        yield from _restart_faults(spec)
    rollout = spec.get("rollout") if isinstance(spec, dict) else None
    if isinstance(spec, dict) and isinstance(rollout, dict) and rollout.get("maxGap") is not None:
        yield from _gap_faults(spec)
    if isinstance(spec, dict) and spec.get("bootstrap") is not None and spec.get("remoteState") is None:
        yield "spec.bootstrap: needs spec.remoteState, which is where its state is put; set that, or remove this"
    if isinstance(spec, dict) and isinstance(rollout, dict) and rollout.get("preview") is not None:
        yield from _preview_faults(spec)
    spark = spec.get("spark") if isinstance(spec, dict) else None
    if isinstance(spec, dict) and isinstance(spark, dict) and spark.get("sinks") and spec.get("engine") != "spark":
        yield (
            "spec.spark.sinks: needs spec.engine: spark, as Spark writes the tables; set that, or remove this and read "
            "the topics"
        )


def _time_faults(spec: dict[str, Any]) -> Iterator[str]:
    """Returns the times that do not fit each other. A Secret may have others: then they are looked at in the pod."""
    kafka = converted(spec.get("kafka") or {}, KafkaSpec)
    processing = converted(spec.get("processing") or {}, ProcessingSpec)
    if kafka.secret_ref is not None:
        return
    own = {"max_poll_interval_ms": processing.max_poll_interval_ms}
    is_spark = spec.get("engine") == "spark"
    if processing.commit_interval_ms is not None and not is_spark:  # a batch of Spark is a commit
        own["commit_interval_ms"] = processing.commit_interval_ms
    exactly_once = is_spark or processing.guarantee == EXACTLY_ONCE
    properties = {key: text(value) for key, value in kafka.properties.items()}
    for name, fault in time_faults(properties, own, exactly_once=exactly_once):
        where = f"spec.{FIELDS[name]}" if name in own else f"spec.kafka.properties.{name}"
        yield f"{where}: {as_in_the_manifest(fault)}"


def _restart_faults(spec: dict[str, Any]) -> Iterator[str]:
    kafka, path = converted(spec.get("kafka") or {}, KafkaSpec), "spec.kafka.restartOnChange"
    if kafka.restart_on_change and kafka.secret_ref is None:
        yield f"{path}: needs spec.kafka.secretRef, the Secret whose changes count; set that, or remove this"
    if kafka.restart_on_change and spec.get("engine") == "spark":
        yield (
            f"{path}: pods of spec.engine spark do not report that their Secret has changed; remove this, and run "
            "`kubectl streamsapp restart NAME` after a change"
        )


def _gap_faults(spec: dict[str, Any]) -> Iterator[str]:
    if spec.get("engine") == "spark":
        yield (
            "spec.rollout.maxGap: a query of spec.engine spark stands still whenever its driver is replaced; remove "
            "this, or run the application by spec.engine threads"
        )


def _preview_faults(spec: dict[str, Any]) -> Iterator[str]:
    if spec.get("remoteState") is None:
        yield "spec.rollout.preview: needs spec.remoteState, as it begins with snapshots; set that, or remove this"
    topology, code = spec.get("topology"), spec.get("code")
    named = isinstance(topology, dict) and topology.get("entrypoint") is not None
    given = isinstance(code, dict) and (code.get("files") or code.get("configMapRef"))
    if named and not given:
        yield (
            "spec.rollout.preview: compares the code of two revisions in one image, so it has to be in spec.code; put "
            "it there, or remove this"
        )


def _application_id_faults(application_id: str | None) -> Iterator[str]:
    if application_id is not None and (fault := application_id_fault(application_id)) is not None:
        yield f"spec.applicationId: {fault}"


def _topology_faults(topology: TopologySource) -> Iterator[str]:
    given = [name for name in ("entrypoint", "graph", "steps") if getattr(topology, name) is not None]
    if len(given) != 1:
        yield f"spec.topology: expected exactly one of entrypoint, graph and steps, got {' and '.join(given) or 'none'}"
    if topology.entrypoint is not None and not CODE_NAME.fullmatch(topology.entrypoint):
        yield f"spec.topology.entrypoint: expected module:attribute, got {topology.entrypoint!r}"
    if topology.graph is not None:
        yield from graph_faults(topology.graph, "spec.topology.graph")
    if topology.steps is not None:
        yield from DeclaredSteps(topology.steps, "spec.topology.steps").faults


def _kafka_faults(kafka: KafkaSpec) -> Iterator[str]:
    fault = None if kafka.bootstrap_servers is None else bootstrap_servers_fault(kafka.bootstrap_servers)
    if fault is not None:
        yield f"spec.kafka.bootstrapServers: {fault}"
    for key, value in kafka.properties.items():
        if _CREDENTIALS.search(str(value)):
            yield f"spec.kafka.properties.{key}: must not carry credentials; put them into the Secret of secretRef"
    for key, value in kafka.properties.items():
        try:
            check_client_keys([key])
        except ConfigError as error:
            yield f"spec.kafka.properties.{key}: {as_in_the_manifest(str(error))}"
        else:
            # A secret does not belong here at all, and the operator says so.
            if not is_secret(key) and (fault := property_fault(kafka.client, key, text(value))) is not None:
                yield f"spec.kafka.properties.{key}: {fault}"


def _remote_state_faults(state: RemoteStateSpec | None) -> Iterator[str]:
    try:
        _ = state and remote_state_config(state, {})
    except ManifestError as error:
        yield from error.faults


def _errors_faults(errors: ErrorsSpec) -> Iterator[str]:
    handlers = {name: getattr(errors, name) for name in ("deserialization", "processing", "production")}
    for name, handler in handlers.items():
        if handler == "dead_letter" and errors.dead_letter_topic is None:
            yield f"spec.errors.{name}: 'dead_letter' needs a topic to write to; set spec.errors.deadLetterTopic"


def _topics_faults(topics: TopicsSpec) -> Iterator[str]:
    for key in topics.properties:
        if not _TOPIC_PROPERTY.fullmatch(key):
            yield f"spec.topics.properties.{key}: expected a topic's setting such as retention.ms"


def _scaling_faults(scaling: AutoscalingSpec) -> Iterator[str]:
    if scaling.min_replicas > scaling.max_replicas:
        yield (
            f"spec.autoscaling.minReplicas: {scaling.min_replicas} is more than maxReplicas ({scaling.max_replicas}); "
            "lower it or raise maxReplicas"
        )


def _code_faults(code: CodeSpec) -> Iterator[str]:
    folders = {str(parent) for name in code.files for parent in PurePosixPath(name).parents}
    paths: dict[PurePosixPath, str] = {}
    for name in code.files:
        if not _is_plain_path(name):
            yield f"spec.code.files.{name}: expected a relative path without '..', such as wordcount.py"
        elif any(len(part.encode()) > _MAX_NAME_BYTES for part in PurePosixPath(name).parts):
            yield f"spec.code.files.{name}: a name in it has more than {_MAX_NAME_BYTES} bytes; shorten it"
        elif str(PurePosixPath(name)) in folders:
            yield f"spec.code.files.{name}: is the folder of another file, too; rename one of them"
        elif (other := paths.setdefault(PurePosixPath(name), name)) != name:
            yield f"spec.code.files.{name}: is the same file as {other}; remove one of them"


def _bootstrap_faults(bootstrap: BootstrapSpec | None) -> Iterator[str]:
    if bootstrap is not None:
        yield from _resource_faults(bootstrap.resources, "spec.bootstrap.resources")


def _spark_faults(spark: SparkSpec) -> Iterator[str]:
    yield from sink_faults(spark.sinks, "spec.spark.sinks")
    if spark.schedule is None:
        return
    try:
        parse_schedule(spark.schedule)
    except ValueError as error:
        yield f"spec.spark.schedule: {error}; write it as cron does, such as 0 * * * * for every full hour"
    if not spark.catches_up:
        yield (
            "spec.spark.schedule: needs spec.spark.trigger: availableNow, as a query that goes on is begun once; set "
            "that, or remove this"
        )


def _rollout_faults(rollout: RolloutSpec) -> Iterator[str]:
    for number, window in enumerate(rollout.maintenance_windows):
        try:
            ZoneInfo(window.time_zone)
        except (KeyError, ValueError, OSError):  # unknown, or no name that a file could have
            path = f"spec.rollout.maintenanceWindows[{number}].timeZone"
            yield f"{path}: expected a name of the IANA database such as Europe/Berlin, got {window.time_zone!r}"


def _resource_faults(resources: Quantities, path: str = "spec.resources") -> Iterator[str]:
    for group, quantities in (("requests", resources.requests), ("limits", resources.limits)):
        for name, quantity in quantities.items():
            if parse_quantity(quantity) is None:
                yield f"{path}.{group}.{name}: expected a quantity such as 2Gi, 500m or 1, got {quantity!r}"


#: Sections of ``spec``: their structure, and what else must hold in them.
_SECTIONS: dict[str, tuple[Any, Callable[[Any], Iterator[str]]]] = {
    "applicationId": (str | None, _application_id_faults),
    "topology": (TopologySource, _topology_faults),
    "kafka": (KafkaSpec, _kafka_faults),
    "errors": (ErrorsSpec, _errors_faults),
    "topics": (TopicsSpec, _topics_faults),
    "remoteState": (RemoteStateSpec | None, _remote_state_faults),
    "autoscaling": (AutoscalingSpec | None, lambda scaling: _scaling_faults(scaling) if scaling else iter(())),
    "code": (CodeSpec, _code_faults),
    "bootstrap": (BootstrapSpec | None, _bootstrap_faults),
    "resources": (ResourcesSpec, _resource_faults),
    "spark": (SparkSpec, _spark_faults),
    "rollout": (RolloutSpec, _rollout_faults),
}


def _is_plain_path(name: str) -> bool:
    path = PurePosixPath(name)
    fits = len(name) <= _MAX_PATH and name.isprintable() and "\\" not in name
    return fits and bool(path.parts) and not path.is_absolute() and ".." not in path.parts
