"""Reads and judges the spec of a ``StreamsApp`` as the API server has it.

Called by the loop of an application, on its thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from streamsapp import __version__
from streamsapp.errors import ManifestError
from streamsapp.manifest import StreamsApp, decode
from streamsapp_operator.children import Owner, RenderSettings, Revision, code_files, revision_of
from streamsapp_operator.children.bootstrap_job import bootstrap_job
from streamsapp_operator.children.names import APPROVED, PAUSED, RESTART_POD
from streamsapp_operator.children.preview_job import preview_hash
from streamsapp_operator.children.spark_job import attempt_of
from streamsapp_operator.kube.documents import depth_fault
from streamsapp_operator.kube.kinds import Object, annotation
from streamsapp_operator.model.desired_state import AnnotationRequests, DesiredState, InvalidSpec

#: The ConfigMap of a name in the application's namespace; ``None`` if there is none.
ReadConfigMap: TypeAlias = Callable[[str], Object | None]

#: A field that the API server let pass and this operator does not know.
_UNKNOWN_FIELD = re.compile(r"(spec[^:\s]*): unknown field")
#: Parts of the spec in which the API server lets everything pass.
_FREE = ("spec.topology.", "spec.podTemplate", "spec.resources.claims", "spec.bootstrap.until")


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """The spec of one application, as it was read."""

    owner: Owner
    application_id: str
    wanted: DesiredState | InvalidSpec
    #: The revision that the spec asks for now; ``None`` if it is invalid.
    revision: Revision | None
    #: The Job of its bootstrap, if it asks for one.
    bootstrap: Object | None = None
    #: Of Jobs with Spark that have none of their own.
    spark_image: str | None = None
    #: ``None``: not known, as the spec is invalid.
    bootstrap_servers: str | None = None


def read_spec(document: Object, settings: RenderSettings, config_map: ReadConfigMap) -> ReadSpec:
    """Reads a spec. It never raises for anything a user wrote: faults are told by ``InvalidSpec``."""
    metadata = document["metadata"]
    owner = Owner(metadata["name"], metadata["namespace"], metadata["uid"])
    deleting, orders = "deletionTimestamp" in metadata, orders_of(document)
    try:
        _refuse_depth(document)
        app = decode(document)
        _refuse_end(app)
        image = _spark_image(app, settings)
        revision = _revision(app, settings, config_map)
        job = _bootstrap(app, owner, revision, settings)
    except ManifestError as error:
        generation = int(metadata["generation"])
        faults = tuple(map(_with_newer_resource, error.faults))
        invalid = InvalidSpec(owner.name, owner.namespace, owner.uid, generation, faults, deleting, orders)
        return ReadSpec(owner, application_id_of(document), invalid, None)
    attempt = None if job is None else attempt_of(job)
    asked = app.spec.rollout.preview
    preview = None if asked is None or image is None else preview_hash(asked, image)
    wanted = _wanted(app, owner, revision.id, attempt, deleting)
    wanted = replace(wanted, preview=preview, program=revision.program, orders=orders)
    return ReadSpec(owner, app.application_id, wanted, revision, job, image, app.spec.kafka.bootstrap_servers)


def orders_of(document: Object) -> AnnotationRequests:
    """Returns the requests of annotations."""
    return AnnotationRequests(
        paused=(annotation(document, PAUSED) or "false") != "false",
        approved=annotation(document, APPROVED),
        restart_pod=annotation(document, RESTART_POD),
    )


def _refuse_depth(document: Object) -> None:
    """Refuses a spec that is too deep: everything below is written for documents that a stack can hold."""
    fault = depth_fault(document.get("spec"), "spec")
    if fault is not None:
        raise ManifestError([fault])


def _with_newer_resource(fault: str) -> str:
    """Returns the fault of a field that only a newer operator knows, in these words: an older one was put in its place,
    and the API server drops what its own resource does not know."""
    found = _UNKNOWN_FIELD.match(fault)
    if found is None or found[1].startswith(_FREE):
        return fault
    return (
        f"{found[1]}: this operator does not know the field, and the StreamsApp resource of this cluster does: the"
        f" operator ({__version__}) is older than the resource. Upgrade the operator; until then all stays as it is"
    )


def _refuse_end(app: StreamsApp) -> None:
    """A driver that has caught up ends, and its pod would be started again at once."""
    spark = app.spec.spark
    if app.spec.engine == "spark" and spark.catches_up and spark.schedule is None:
        told = "'availableNow' ends, so spec.spark.schedule has to say when it begins; set that, or a time such as 1s"
        raise ManifestError([f"spec.spark.trigger: {told}"])


def _spark_image(app: StreamsApp, settings: RenderSettings) -> str | None:
    image = app.spec.spark.image or settings.spark_image
    if image is None and app.spec.rollout.preview is not None:
        told = "is required for spec.rollout.preview, as this operator was given no image with Spark; name one"
        raise ManifestError([f"spec.spark.image: {told}"])
    return image


def _revision(app: StreamsApp, settings: RenderSettings, config_map: ReadConfigMap) -> Revision:
    reference = app.spec.code.config_map_ref
    found = None if reference is None else config_map(reference.name)
    return revision_of(app, settings, code_files(app, found))


def _bootstrap(app: StreamsApp, owner: Owner, revision: Revision, settings: RenderSettings) -> Object | None:
    asked = app.spec.bootstrap
    return None if asked is None else bootstrap_job(owner, asked, revision, settings)


def _wanted(app: StreamsApp, owner: Owner, revision: str, bootstrap: str | None, deleting: bool) -> DesiredState:
    spec, remote = app.spec, app.spec.remote_state
    return DesiredState(
        name=owner.name,
        namespace=owner.namespace,
        uid=owner.uid,
        generation=app.metadata.generation or 0,
        revision=revision,
        replicas=spec.replicas,
        standby_replicas=spec.processing.standby_replicas,
        rollout=spec.rollout,
        autoscaling=spec.autoscaling,
        has_remote_state=remote is not None,
        snapshot_interval_seconds=60 if remote is None else remote.snapshot_interval_seconds,
        bootstrap=bootstrap,
        deleting=deleting,
        engine=spec.engine,
        schedule=spec.spark.schedule if spec.engine == "spark" else None,
    )


def application_id_of(document: Object) -> str:
    """Returns the application id of a spec that may have any fault: its pods are asked all the same."""
    spec = document.get("spec")
    given = spec.get("applicationId") if isinstance(spec, dict) else None
    return given if isinstance(given, str) and given else str(document["metadata"]["name"])
