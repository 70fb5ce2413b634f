"""Maps fields of the manifest to the fields of ``StreamsConfig`` that name them. Pure.

Called by ``to_config``, before the runtime starts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from streamsapp.config import StreamsConfig
from streamsapp.config.scheduling import Scheduling
from streamsapp.config.setting import defined_settings
from streamsapp.declared.resolve import Code, resolve
from streamsapp.errors import ConfigError, ManifestError
from streamsapp.manifest.model import StreamsApp
from streamsapp.manifest.types import Property, SchedulingEntry

#: Of each field of ``StreamsConfig`` that the manifest sets its field below ``spec``.
FIELDS: Mapping[str, str] = {
    each.name: defined.field.path for each, defined in defined_settings(StreamsConfig) if defined.field is not None
}

#: The variable of a pod's environment that has the zone of its node: label ``topology.kubernetes.io/zone`` of the pod,
#: which Kubernetes copies from the node (KEP-4742). Empty where it does not.
NODE_ZONE = "NODE_ZONE"
#: ``$(NAME)``, as in a container's arguments.
_VARIABLE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


def settings_of(app: StreamsApp, code: Code | None, *, in_place: bool) -> dict[str, Any]:
    """Fields of ``StreamsConfig`` that ``spec.processing``, ``spec.errors`` and ``spec.topics`` set.

    ``code`` is asked for what they name of the user's code. ``in_place`` says that this is where the application runs,
    so that the variables of the environment are its own.
    """
    sections = {"processing": app.spec.processing, "errors": app.spec.errors}
    resolved = resolve({f"spec.{name}": section for name, section in sections.items()}, code or _NoCode())
    found = dict(zip(sections, resolved, strict=True)) | {"topics": app.spec.topics}
    settings = {name: _at(found, path) for name, path in FIELDS.items() if path.partition(".")[0] in found}
    settings["topic_properties"] = {key: text(value) for key, value in app.spec.topics.properties.items()}
    settings["scheduling"] = scheduling_of(app)
    settings["client_tags"] = _zone() | _tags(app.spec.processing.client_tags) if in_place else {}
    return settings


def scheduling_of(app: StreamsApp) -> list[Scheduling]:
    """Returns the entries of ``spec.processing.scheduling``."""
    return [_scheduling(place, each) for place, each in enumerate(app.spec.processing.scheduling)]


def as_in_the_manifest(fault: str) -> str:
    """Turns a message about fields of ``StreamsConfig`` into one about the manifest's fields, also in its remedy."""
    return re.sub(r"(the setting )?([a-z_]+)", _named_as_in_the_manifest, fault)


def _named_as_in_the_manifest(found: re.Match[str]) -> str:
    said, name = found.group(1, 2)
    return (said or "") + (_path_of(name) if said or "_" in name else name)


def text(value: Property) -> str:
    """A property's value as Kafka takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _path_of(name: str) -> str:
    return f"spec.{FIELDS[name]}" if "_" in name and name in FIELDS else name


def _at(sections: Mapping[str, Any], path: str) -> Any:
    section, _, field = path.partition(".")
    return getattr(sections[section], _snake_case(field))


def _snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _scheduling(place: int, entry: SchedulingEntry) -> Scheduling:
    try:
        return Scheduling(
            sub_topology=entry.sub_topology,
            source=entry.source,
            weight=entry.weight,
            scheduling_class=entry.class_,
            on_failure=entry.on_failure,
        )
    except ConfigError as error:
        fault = str(error).removeprefix("scheduling: ").replace("sub_topology", "subTopology")
        raise ManifestError([f"spec.processing.scheduling[{place}]: {fault}"]) from error


def _zone() -> dict[str, str]:
    """Returns the tag of the zone that the pod's node is in, as far as the cluster tells its pods."""
    zone = os.environ.get(NODE_ZONE)
    return {"zone": zone} if zone else {}


def _tags(tags: Mapping[str, str]) -> dict[str, str]:
    unknown = [
        f"spec.processing.clientTags.{tag}: there is no variable {name} in the environment; set it in spec.podTemplate"
        for tag, value in tags.items()
        for name in _VARIABLE.findall(value)
        if name not in os.environ
    ]
    if unknown:
        raise ManifestError(unknown)
    return {tag: _VARIABLE.sub(lambda name: os.environ[name[1]], value) for tag, value in tags.items()}


class _NoCode:
    """Serves callers that have only the manifest: a reference to code is a fault, never left out."""

    def find(self, name: str, field: str) -> Any:
        raise ManifestError([f"{field}: {name} is code, which cannot be looked up here; run it with its manifest"])

    def run(self, function: Any, doing: str, field: str) -> Any:
        return function()
