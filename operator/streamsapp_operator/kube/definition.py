"""Compares the StreamsApp resource that the cluster serves with the one that this operator ships. Pure.

Called by ``__main__`` and on the loops' threads. An API server leaves out whatever its CustomResourceDefinition lacks,
at every read, and at the next write of any client for good. ``helm rollback`` puts an older definition over a newer
one. So nothing is done by a spec that may lack something, and nothing is written then:

* The definition is older than the object: ``metadata.managedFields`` is kept as it is, and still names the fields.
* The definition is older than the operator: each write of a status sends, as the spec, every field that this operator
  knows. The API server is asked to refuse what it does not know, and of a write to the status it ignores the spec. So
  the server that would lose fields refuses the write by itself, however short ago it learnt of the older definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamsapp_operator.kube.errors import OlderDefinition
from streamsapp_operator.kube.kinds import Object

#: Fields that a message names.
_NAMED = 5


def every_field(definition: Object) -> Object:
    """Returns a spec that has every field of the definition, none with a meaning."""
    (version,) = (it for it in definition["spec"]["versions"] if it["storage"])
    sample: Object = _sample(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return sample


def require_whole(document: Object, known: Object | None) -> None:
    """Raises ``OlderDefinition`` if the object has fields of the spec that were left out when it was read. ``None``:
    nothing is known, and so nothing required."""
    hidden = [] if known is None else hidden_fields(document, known)
    if hidden:
        raise OlderDefinition(
            f"the StreamsApp resource of this cluster is older than this application: it hides {_named(hidden)}."
            " Nothing is done and nothing is written: every write, also with kubectl, loses that for good. Bring the"
            " newer resource back: kubectl apply --server-side --force-conflicts -f crds/streamsapps.yaml of the newest"
            " release; if that does not end this, it is lost already: apply the application's manifest again"
        )


def lacks(fields: list[str]) -> OlderDefinition:
    """Returns the error of a definition that does not know these fields of the operator's."""
    return OlderDefinition(
        f"the StreamsApp resource of this cluster is older than this operator: it lacks {_named(fields)}. Nothing is"
        " done and nothing is written, as that could lose fields for good. Bring it up to date: kubectl apply"
        " --server-side --force-conflicts -f crds/streamsapps.yaml of the operator's release"
    )


def hidden_fields(document: Object, known: Object) -> list[str]:
    """Returns the paths of the fields of the spec that were set, as ``metadata.managedFields`` has it, and that the
    object does not have as it was read. Only fields of fields that are ``known`` to have some are compared: keys of a
    mapping without a schema may be named there and be gone for other reasons, as keys without a value are."""
    found: dict[str, None] = {}
    for entry in document["metadata"].get("managedFields") or ():
        fields = entry.get("fieldsV1") if isinstance(entry, dict) else None
        if isinstance(fields, dict) and not entry.get("subresource"):
            found |= dict.fromkeys(_hidden(fields.get("f:spec"), document.get("spec"), known, "spec"))
    return list(found)


def _hidden(managed: object, value: object, known: object, path: str) -> Iterator[str]:
    if not (isinstance(managed, dict) and isinstance(value, dict) and isinstance(known, dict)):
        return
    for key, below in managed.items():
        kind, _, name = key.partition(":")
        if kind != "f" or not name:
            continue  # an item of a list, or the field itself
        if name in value:
            yield from _hidden(below, value[name], known.get(name), f"{path}.{name}")
        else:
            yield f"{path}.{name}"


def _sample(schema: Mapping[str, Any]) -> Any:
    if "properties" in schema:
        return {name: _sample(inner) for name, inner in schema["properties"].items()}
    if isinstance(schema.get("items"), dict) and "properties" in schema["items"]:
        return [_sample(schema["items"])]
    return None


def _named(fields: list[str]) -> str:
    more = len(fields) - _NAMED
    return ", ".join(fields[:_NAMED]) + (f" and {more} more" if more > 0 else "")
