"""The status of a StreamsApp as the API server has it: people's fields, and the operator's memory as one field that
sorts last. Pure.

Called by the loop, the plugin and the console.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from streamsapp.structs import converted
from streamsapp_operator.model.status import AppStatus, OperatorMemory, RolloutMemory, RolloutStatus

#: The field of the resource's status that has the operator's memory; ``kubectl describe`` sorts fields by name.
MEMORY = "workingMemory"
#: By structure, the part of it that is memory.
_MEMORIES: dict[type[Struct], type[Struct]] = {AppStatus: OperatorMemory, RolloutStatus: RolloutMemory}


def shown_fields(structure: type[Struct]) -> list[FieldInfo]:
    """Returns the fields of a structure that people find where it stands in the resource."""
    memory = _memory_names(structure)
    return [field for field in fields(structure) if field.encode_name not in memory]


def to_document(status: AppStatus) -> dict[str, Any]:
    """Returns the document that the API server takes."""
    document: dict[str, Any] = msgspec.to_builtins(status)
    memory = _taken(document, AppStatus)
    if document["rollout"] is not None:
        memory["rollout"] = _taken(document["rollout"], RolloutStatus)
    return document | {MEMORY: memory}


def from_document(document: dict[str, Any] | None) -> AppStatus:
    """Reads the status as it was left. A status that cannot be read is a new beginning, never an error: the cluster
    shows the rest. Operators before 0.3.0 had their memory among the other fields: what such a one has left is read as
    it is, and the next write, which replaces the whole status, puts it where it belongs."""
    try:
        return converted(_flat(document or {}), AppStatus)
    except msgspec.ValidationError:
        return AppStatus()


def _memory_names(structure: type[Struct]) -> frozenset[str]:
    memory = _MEMORIES.get(structure)
    return frozenset() if memory is None else frozenset(field.encode_name for field in fields(memory))


def _taken(document: dict[str, Any], structure: type[Struct]) -> dict[str, Any]:
    """Takes the memory out of the document of a structure, and returns it."""
    return {name: document.pop(name) for name in sorted(_memory_names(structure))}


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a status with the memory among the other fields, as the structures have it."""
    memory = document.get(MEMORY)
    if not isinstance(memory, dict):
        return document
    rollout, of_rollout = document.get("rollout"), memory.get("rollout")
    if isinstance(rollout, dict) and isinstance(of_rollout, dict):
        rollout = rollout | _only_memory(of_rollout, RolloutStatus)
    return document | _only_memory(memory, AppStatus) | {"rollout": rollout}


def _only_memory(found: dict[str, Any], structure: type[Struct]) -> dict[str, Any]:
    return {name: found[name] for name in _memory_names(structure) & found.keys()}
