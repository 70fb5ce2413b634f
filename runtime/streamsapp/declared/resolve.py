"""Looks up what a declaration names: serdes, functions, processors. All faults are reported at once.

Called before a topology is built, on the thread that builds it. The user's code is imported and looked at, and serdes
and processors are made once to see whether they are any.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar, get_type_hints

import msgspec
from msgspec import Struct

from streamsapp.declared.roles import (
    ASYNC_MAPPER,
    JOINER,
    PARTITIONER,
    PROCESSOR,
    SERDE,
    SERDE_NAME,
    VALUE_MAPPER,
    VALUES_MAPPER,
    WINDOW_AGGREGATOR,
    Reference,
    Role,
    names_code,
    role_of,
)
from streamsapp.dsl.arity import keys_taken, require_arity, require_coroutine, takes_key, takes_last
from streamsapp.errors import ManifestError, TopologyError, written_at
from streamsapp.processor.partitions import takes_headers
from streamsapp.serdes.api import Serde
from streamsapp.topology.suppliers import check_supplier


class Code(Protocol):
    """The user's code. A fault in it is a ``ManifestError`` that begins with ``field``."""

    def find(self, name: str, field: str) -> Any:
        """Returns the object that ``module:attribute`` names."""
        ...

    def run(self, function: Callable[[], Any], doing: str, field: str) -> Any:
        """Returns what the user's function returns; an error that it raises is reported with the user's own line."""
        ...


T = TypeVar("T")
S = TypeVar("S", bound=Struct)


def resolve(declared: dict[str, S], code: Code) -> list[S]:
    """Structures by their paths, with what their references stand for in the place of the references."""
    faults: list[str] = []
    resolved = [_filled(each, path, code, faults) for path, each in declared.items()]
    if faults:
        raise ManifestError(faults)
    return resolved


def _filled(declared: S, path: str, code: Code, faults: list[str]) -> S:
    hints = get_type_hints(type(declared), include_extras=True)
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(declared):
        value, at = getattr(declared, field.name), f"{path}.{field.encode_name}"
        role = role_of(hints[field.name])
        if role is not None and value is not None:
            try:
                values[field.name] = _resolved(at, role, value, code)
            except ManifestError as error:
                faults += error.faults
        elif isinstance(value, Struct):
            values[field.name] = _filled(value, at, code, faults)
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            values[field.name] = [_filled(item, f"{at}[{index}]", code, faults) for index, item in enumerate(value)]
    return msgspec.structs.replace(declared, **values)


def _resolved(path: str, role: Role, reference: Reference, code: Code) -> Any:
    if isinstance(reference, dict) and not role.made_of.keys().isdisjoint(reference):
        ((kind, of),) = reference.items()
        return _made_of(role.made_of[kind], code.find(of, path), path)
    if not names_code(reference):
        return role.built(reference)
    name = str(reference)
    value = code.find(name, path)
    if role in (SERDE, SERDE_NAME):
        return serde_of(value, name, path, code)
    fault = code.run(partial(_function_fault, role, value, name), f"making a processor with {name}", path)
    if fault is not None:
        raise ManifestError([f"{path}: {fault}"])
    return value


def _made_of(make: Callable[[Any], Any], of: Any, path: str) -> Any:
    """Returns what is made of the user's code; code that cannot be used is reported with a path."""
    try:
        return make(of)
    except TopologyError as error:
        raise ManifestError([f"{path}: {error}"]) from error


def _function_fault(role: Role, value: Any, name: str) -> str | None:
    """Returns why the function cannot be called as the role's functions are; ``None`` if it can."""
    try:
        if role is PROCESSOR:
            check_supplier(name, value)
        elif role is ASYNC_MAPPER:
            require_coroutine("the runtime", value)  # its arguments depend on another field: the operation checks them
        elif role in (VALUE_MAPPER, VALUES_MAPPER):
            takes_key("the runtime", value)
        elif role is JOINER:
            keys_taken("the runtime", value, ("key", "row_key"), "value", "row")
        elif role is WINDOW_AGGREGATOR:
            takes_last("the runtime", value, ("key", "value", "aggregate"), "window")
        elif role is PARTITIONER:
            takes_headers(f"the partitioner {name}", value)
        else:
            require_arity("the runtime", value, *(role.arguments or ()))
    except TopologyError as error:
        return str(error)
    return None


def serde_of(value: Any, name: str, path: str, code: Code) -> Serde[Any]:
    """A serde, or what a function without arguments returns as one."""
    made = value if isinstance(value, Serde) or not callable(value) else code.run(value, f"calling {name}", path)
    if not isinstance(made, Serde):
        raise ManifestError([f"{path}: {name} gives {type(made).__name__}; expected a serde, such as Serdes.of(...)"])
    return made


def built(function: Callable[[], T], path: str, code: Code) -> T:
    """Returns what a building function returns; a value that cannot be built is reported with its path in the manifest.

    The user's code may run meanwhile: a supplier is asked which stores it brings.
    """

    def build() -> T:
        try:
            with written_at(path):
                return function()
        except TopologyError as error:
            raise ManifestError([f"{path}: {error}"]) from error

    made: T = code.run(build, "building the topology", path)
    return made
