"""Reads a manifest: YAML text to a ``StreamsApp``, or a ``ManifestError`` that lists every fault.

Called by the command line (a file) and by the operator (an object of the API server).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import yaml

from streamsapp.config.client_keys import check_client_keys
from streamsapp.declared.faults import faults_of
from streamsapp.declared.flow import Flow
from streamsapp.declared.graph import graph_faults
from streamsapp.declared.roles import CODE_NAME
from streamsapp.errors import ConfigError, ManifestError
from streamsapp.manifest.model import (
    Autoscaling,
    Bootstrap,
    Code,
    Kafka,
    Quantities,
    Resources,
    StreamsApp,
    TopologySource,
)
from streamsapp.manifest.quantity import parse_quantity


def load(path: Path) -> StreamsApp:
    """The manifest in a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ManifestError([f"{path}: cannot be read: {reason}"]) from error
    return decode(parse_yaml(text))


def decode(document: object) -> StreamsApp:
    """The manifest in a decoded document; all faults are found before any is raised."""
    faults = faults_of(document, StreamsApp)
    faults = [*faults, *_faults_between_fields(document, faults)]
    if faults:
        raise ManifestError(faults)
    return msgspec.convert(document, StreamsApp)


def parse_yaml(text: str) -> object:
    """The only document of a YAML text."""
    try:
        documents = list(yaml.load_all(text, _UniqueKeys))
    except yaml.YAMLError as error:
        raise ManifestError([_yaml_fault(error)]) from error
    documents = [document for document in documents if document is not None]
    if len(documents) != 1:
        raise ManifestError([f"the document: expected one StreamsApp, found {len(documents)} documents"])
    return documents[0]


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key given twice, of which YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is given twice", key.start_mark
                )
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
        return super().construct_mapping(node, deep)


def _yaml_fault(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem or 'not YAML'}"
    return f"the document is not YAML: {' '.join(str(error).split())}"


def _faults_between_fields(document: object, faults: list[str]) -> Iterator[str]:
    """What the type of no single field shows, in the sections of ``spec`` that are free of ``faults``."""
    spec = document.get("spec") if isinstance(document, dict) else None
    for name, (structure, check) in _SECTIONS.items():
        if isinstance(spec, dict) and name in spec and not any(line.startswith(f"spec.{name}") for line in faults):
            yield from check(msgspec.convert(spec[name], structure))
    if isinstance(spec, dict) and spec.get("bootstrap") is not None and spec.get("remoteState") is None:
        yield "spec.bootstrap: needs spec.remoteState, which is where its state is put; set that, or remove this"


def _engine_faults(engine: str) -> Iterator[str]:
    if engine == "spark":
        yield "spec.engine: 'spark' is not available yet; use 'threads'"


def _topology_faults(topology: TopologySource) -> Iterator[str]:
    given = [name for name in ("entrypoint", "graph", "steps") if getattr(topology, name) is not None]
    if len(given) != 1:
        yield f"spec.topology: expected exactly one of entrypoint, graph and steps, got {' and '.join(given) or 'none'}"
    if topology.entrypoint is not None and not CODE_NAME.fullmatch(topology.entrypoint):
        yield f"spec.topology.entrypoint: expected module:attribute, got {topology.entrypoint!r}"
    if topology.graph is not None:
        yield from graph_faults(topology.graph, "spec.topology.graph")
    if topology.steps is not None:
        yield from Flow(topology.steps, "spec.topology.steps").faults


def _kafka_faults(kafka: Kafka) -> Iterator[str]:
    for key in kafka.properties:
        try:
            check_client_keys([key])
        except ConfigError as error:
            yield f"spec.kafka.properties.{key}: {error}"


def _scaling_faults(scaling: Autoscaling) -> Iterator[str]:
    if scaling.min_replicas > scaling.max_replicas:
        yield (
            f"spec.autoscaling.minReplicas: {scaling.min_replicas} is more than maxReplicas ({scaling.max_replicas}); "
            "lower it or raise maxReplicas"
        )


def _code_faults(code: Code) -> Iterator[str]:
    for name in code.files:
        if not _is_plain_path(name):
            yield f"spec.code.files.{name}: expected a relative path without '..', such as wordcount.py"


def _bootstrap_faults(bootstrap: Bootstrap | None) -> Iterator[str]:
    if bootstrap is not None:
        yield from _resource_faults(bootstrap.resources, "spec.bootstrap.resources")


def _resource_faults(resources: Quantities, path: str = "spec.resources") -> Iterator[str]:
    for group, quantities in (("requests", resources.requests), ("limits", resources.limits)):
        for name, quantity in quantities.items():
            if parse_quantity(quantity) is None:
                yield f"{path}.{group}.{name}: expected a quantity such as 2Gi, 500m or 1, got {quantity!r}"


#: Sections of ``spec``: their structure, and what else must hold in them.
_SECTIONS: dict[str, tuple[Any, Callable[[Any], Iterator[str]]]] = {
    "engine": (str, _engine_faults),
    "topology": (TopologySource, _topology_faults),
    "kafka": (Kafka, _kafka_faults),
    "autoscaling": (Autoscaling | None, lambda scaling: _scaling_faults(scaling) if scaling else iter(())),
    "code": (Code, _code_faults),
    "bootstrap": (Bootstrap | None, _bootstrap_faults),
    "resources": (Resources, _resource_faults),
}


def _is_plain_path(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\\" not in name
