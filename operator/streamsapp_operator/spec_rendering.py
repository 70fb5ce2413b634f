"""Makes of a spec that was read the state that is wanted, and what its pods and Jobs are made of. Pure.

Called by the loop of an application, on its thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from streamsapp.errors import ManifestError
from streamsapp.manifest import StreamsApp
from streamsapp.manifest.model import Engine
from streamsapp_operator.children import Owner, RenderSettings, Revision, code_files, revision_of
from streamsapp_operator.children.bootstrap_job import bootstrap_job
from streamsapp_operator.children.names import UNDONE
from streamsapp_operator.children.preview_job import preview_hash
from streamsapp_operator.children.spark_job import attempt_of
from streamsapp_operator.kube.kinds import Object
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.spec_reader import ReadSpec, read_spec

#: An earlier revision of the application; ``None`` if it is gone.
ReadRevision: TypeAlias = Callable[[str], Revision | None]
#: The ConfigMap of a name in the application's namespace; ``None`` if there is none.
ReadConfigMap: TypeAlias = Callable[[str], Object | None]


@dataclass(frozen=True, slots=True)
class RenderedSpec:
    """The spec of one application, and the objects made from it."""

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


def rendered_spec(
    document: Object,
    settings: RenderSettings,
    config_map: ReadConfigMap,
    earlier: ReadRevision = lambda revision: None,
) -> RenderedSpec:
    """Reads a spec and renders it. It never raises for anything a user wrote: ``InvalidSpec`` has the faults."""
    read = read_spec(document)
    if read.app is None:
        return _invalid(read, read.faults)
    try:
        rendered = _rendered(read, read.app, settings, config_map)
        return _undone(rendered, read.requests.undone_to, earlier)
    except ManifestError as error:
        return _invalid(read, tuple(error.faults))


def _invalid(read: ReadSpec, faults: tuple[str, ...]) -> RenderedSpec:
    owner = read.owner
    wanted = InvalidSpec(owner.name, owner.namespace, owner.uid, read.generation, faults, read.deleting, read.requests)
    return RenderedSpec(owner, read.application_id, wanted, None)


def _rendered(read: ReadSpec, app: StreamsApp, settings: RenderSettings, config_map: ReadConfigMap) -> RenderedSpec:
    """Raises ``ManifestError``."""
    image = _spark_image(app, settings)
    revision = _revision(app, settings, config_map)
    bootstrap, preview = app.spec.bootstrap, app.spec.rollout.preview
    job = None if bootstrap is None else bootstrap_job(read.owner, bootstrap, revision, settings)
    wanted = _wanted(
        read,
        app,
        revision,
        None if job is None else attempt_of(job),
        None if preview is None or image is None else preview_hash(preview, image),
    )
    return RenderedSpec(read.owner, app.application_id, wanted, revision, job, image, app.spec.kafka.bootstrap_servers)


def _undone(rendered: RenderedSpec, to: str | None, earlier: ReadRevision) -> RenderedSpec:
    """Returns the spec with an earlier revision in place of its own, if that is asked for."""
    wanted = rendered.wanted
    if to is None or isinstance(wanted, InvalidSpec) or to == wanted.revision:
        return rendered
    found = earlier(to)
    if found is None:
        remedy = "`kubectl streamsapp rollout history` names those that can come back; or remove the annotation"
        raise ManifestError([f"metadata.annotations.{UNDONE}: revision {to!r} is gone; {remedy}"])
    runs = found.scheduled
    engine: Engine = "spark" if found.driver is not None or runs is not None else "threads"
    schedule = None if runs is None else runs.schedule
    back = replace(wanted, revision=found.id, program=found.program, engine=engine, schedule=schedule, undone=True)
    return replace(rendered, wanted=back)


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


def _wanted(
    read: ReadSpec, app: StreamsApp, revision: Revision, bootstrap: str | None, preview: str | None
) -> DesiredState:
    spec, remote = app.spec, app.spec.remote_state
    return DesiredState(
        name=read.owner.name,
        namespace=read.owner.namespace,
        uid=read.owner.uid,
        generation=read.generation,
        revision=revision.id,
        program=revision.program,
        replicas=spec.replicas,
        standby_replicas=spec.processing.standby_replicas,
        rollout=spec.rollout,
        autoscaling=spec.autoscaling,
        has_remote_state=remote is not None,
        snapshot_interval_seconds=60 if remote is None else remote.snapshot_interval_seconds,
        bootstrap=bootstrap,
        preview=preview,
        deleting=read.deleting,
        requests=read.requests,
        engine=spec.engine,
        schedule=spec.spark.schedule if spec.engine == "spark" else None,
        restart_on_change=spec.kafka.restart_on_change,
    )
