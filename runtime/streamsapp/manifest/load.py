"""Reads a manifest: YAML text to a ``StreamsApp``, or a ``ManifestError`` that lists every fault.

Called by the command line (a file) and by the operator (an object of the API server).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import yaml

from streamsapp.config.client_keys import refuse_owned_keys
from streamsapp.errors import ConfigError, ManifestError
from streamsapp.manifest.faults import faults_of
from streamsapp.manifest.model import Spec, StreamsApp, TopologySource
from streamsapp.manifest.quantity import parse_quantity

_ENTRYPOINT = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


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
    if faults:
        raise ManifestError(faults)
    app = msgspec.convert(document, StreamsApp)
    if faults := list(_faults_between_fields(app.spec)):
        raise ManifestError(faults)
    return app


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


def _faults_between_fields(spec: Spec) -> Iterator[str]:
    """What no single field shows."""
    if spec.engine == "spark":
        yield "spec.engine: 'spark' is not available yet; use 'threads'"
    yield from _topology_faults(spec.topology)
    yield from _property_faults(spec)
    scaling = spec.autoscaling
    if scaling is not None and scaling.min_replicas > scaling.max_replicas:
        yield (
            f"spec.autoscaling.minReplicas: {scaling.min_replicas} is more than maxReplicas ({scaling.max_replicas}); "
            "lower it or raise maxReplicas"
        )
    for name in spec.code.files:
        if not _is_plain_path(name):
            yield f"spec.code.files.{name}: expected a relative path without '..', such as wordcount.py"
    for group, quantities in (("requests", spec.resources.requests), ("limits", spec.resources.limits)):
        for name, quantity in quantities.items():
            if parse_quantity(quantity) is None:
                yield f"spec.resources.{group}.{name}: expected a quantity such as 2Gi, 500m or 1, got {quantity!r}"


def _topology_faults(topology: TopologySource) -> Iterator[str]:
    given = [name for name in ("entrypoint", "graph", "steps") if getattr(topology, name) is not None]
    if len(given) != 1:
        yield f"spec.topology: expected exactly one of entrypoint, graph and steps, got {' and '.join(given) or 'none'}"
    for name in ("graph", "steps"):
        if name in given:
            yield f"spec.topology.{name}: is not available yet; write the topology in Python and name it in entrypoint"
    if topology.entrypoint is not None and not _ENTRYPOINT.fullmatch(topology.entrypoint):
        yield f"spec.topology.entrypoint: expected module:attribute, got {topology.entrypoint!r}"


def _property_faults(spec: Spec) -> Iterator[str]:
    for key in spec.kafka.properties:
        try:
            refuse_owned_keys([key])
        except ConfigError as error:
            yield f"spec.kafka.properties.{key}: {error}"


def _is_plain_path(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\\" not in name
