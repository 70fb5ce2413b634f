"""Reads and judges the spec of a ``StreamsApp`` as the API server has it. Pure.

Called by ``spec_rendering``, on the thread of an application's loop; the console and the watch of consumer groups read
application ids.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamsapp import __version__
from streamsapp.errors import ManifestError
from streamsapp.manifest import StreamsApp, decode
from streamsapp_operator.children.names import APPROVED, PAUSED, RESTART_POD, UNDONE, Owner
from streamsapp_operator.kube.documents import depth_fault
from streamsapp_operator.kube.kinds import Object, annotation
from streamsapp_operator.model.desired_state import AnnotationRequests

#: A field that the API server let pass and this operator does not know.
_UNKNOWN_FIELD = re.compile(r"(spec[^:\s]*): unknown field")
#: Parts of the spec in which the API server lets everything pass.
_FREE = ("spec.topology.", "spec.podTemplate", "spec.resources.claims", "spec.bootstrap.until")


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """The spec of one application, as it was read."""

    owner: Owner
    application_id: str
    generation: int
    deleting: bool
    requests: AnnotationRequests
    #: ``None`` if the spec has ``faults``.
    app: StreamsApp | None
    faults: tuple[str, ...] = ()


def read_spec(document: Object) -> ReadSpec:
    """Reads a spec. It never raises for anything a user wrote: ``faults`` has what is wrong."""
    metadata = document["metadata"]
    owner = owner_of(document)
    app, faults = _judged(document)
    return ReadSpec(
        owner,
        application_id_of(document) if app is None else app.application_id,
        int(metadata.get("generation") or 0),
        "deletionTimestamp" in metadata,
        requests_of(document),
        app,
        faults,
    )


def owner_of(document: Object) -> Owner:
    """Returns the application as its children name it."""
    metadata = document["metadata"]
    return Owner(metadata["name"], metadata["namespace"], metadata["uid"])


def _judged(document: Object) -> tuple[StreamsApp | None, tuple[str, ...]]:
    try:
        _refuse_depth(document)
        app = decode(document)
        _refuse_end(app)
    except ManifestError as error:
        return None, tuple(map(_with_newer_resource, error.faults))
    return app, ()


def requests_of(document: Object) -> AnnotationRequests:
    """Returns the requests of annotations."""
    return AnnotationRequests(
        paused=(annotation(document, PAUSED) or "false") != "false",
        approved=annotation(document, APPROVED),
        restart_pod=annotation(document, RESTART_POD),
        undone_to=_undone_to(document),
    )


def _undone_to(document: Object) -> str | None:
    """Returns the revision that takes the place of the spec's. A change of the spec ends that."""
    generation, _, revision = (annotation(document, UNDONE) or "").partition("/")
    return revision if revision and generation == str(document["metadata"].get("generation")) else None


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


def application_id_of(document: Object) -> str:
    """Returns the application id of a spec that may have any fault: its pods are asked all the same."""
    spec = document.get("spec")
    given = spec.get("applicationId") if isinstance(spec, dict) else None
    return given if isinstance(given, str) and given else str(document["metadata"]["name"])
