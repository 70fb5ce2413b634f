"""Serdes of a user's own types: JSON and MessagePack with their fields checked, and Protobuf messages.

Made while a topology is built; they run on processing threads, for every record. Bytes that do not fit the type raise a
``ValueError`` that names the field, as ``$.items[3].price``, which the deserialization handler is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, cast, is_typeddict

import msgspec
from msgspec import inspect

from streamsapp.errors import TopologyError
from streamsapp.serdes.api import PlainForm, Serde
from streamsapp.serdes.examples import example_of
from streamsapp.serdes.json_text import write_json
from streamsapp.serdes.read_back import written_as_shaped, written_to_last
from streamsapp.serdes.shapes import NoShapeError, shape_of
from streamsapp.serdes.suggestion import wrong_type
from streamsapp.structs import converted, decoder, described

T = TypeVar("T")


class ProtobufMessage(Protocol):
    """The methods that a message must have; its library is the user's."""

    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...  # noqa: N802 - its name
    def ParseFromString(self, serialized: bytes, /) -> Any: ...  # noqa: N802


M = TypeVar("M", bound=ProtobufMessage)


def json_of(kind: type[T]) -> Serde[T]:
    """Returns the serde of a type as JSON: a dataclass, a msgspec struct, a pydantic model, or whatever msgspec knows
    (``TypedDict``, ``list[Order]``, unions of tagged structs). Raises ``TopologyError`` for any other."""
    name = f"json({_name(kind)})"
    if hasattr(kind, "model_validate_json"):
        return _pydantic(kind, name)
    read = _checked_kind(kind, lambda: decoder(kind, "json"))
    encode = msgspec.json.Encoder(order=_order(kind)).encode
    return Serde(_written(kind, name, encode, read), read, name=name, plain=_plain(kind))


def msgpack_of(kind: type[T]) -> Serde[T]:
    """Returns the serde of a type as MessagePack, with dataclasses and structs as maps."""
    name = "msgpack" if kind in (Any, object) else f"msgpack({_name(kind)})"
    read = _checked_kind(kind, lambda: decoder(kind, "msgpack"))
    encode = msgspec.msgpack.Encoder(order=_order(kind)).encode
    return Serde(_written(kind, name, encode, read), read, name=name, plain=_plain(kind))


def protobuf_of(kind: type[M]) -> Serde[M]:
    """Returns the serde of a generated class of messages, their bytes alone, as without a schema registry.

    Equal messages have equal bytes, so they can be keys.
    """
    if not (hasattr(kind, "SerializeToString") and hasattr(kind, "ParseFromString")):
        raise TopologyError(f"Serdes.protobuf: {_name(kind)} is not a class of Protobuf messages; give a generated one")
    name = f"protobuf({_name(kind)})"

    def serialize(message: M) -> bytes:
        _require(message, kind, name)
        return message.SerializeToString(deterministic=True)

    def deserialize(data: bytes) -> M:
        message = kind()
        try:
            message.ParseFromString(data)
        except Exception as error:  # its library's DecodeError
            raise ValueError(f"{len(data)} bytes are no {_name(kind)}: {error}") from error
        return message

    return Serde(serialize, deserialize, name=name, plain=protobuf_plain(kind))


def _pydantic(kind: Any, name: str) -> Serde[Any]:
    def write(model: Any) -> bytes:
        return cast(str, model.model_dump_json(by_alias=True)).encode()

    def read(data: bytes) -> Any:
        return _told(lambda: kind.model_validate_json(data))

    def plain(document: Any) -> Any:
        return _told(lambda: kind.model_validate_json(write_json(document)))

    def same(one: Any, other: Any) -> bool:  # its own comparison takes longer than writing and reading
        return one.__class__ is other.__class__ and one.__dict__ == other.__dict__

    return PydanticSerde(
        _checking(kind, name, written_to_last(name, write, read, same)),
        read,
        name=name,
        plain=PlainForm(plain, lambda model: model.model_dump(mode="json", by_alias=True), fields=kind),
        kind=kind,
    )


@dataclass(frozen=True)
class PydanticSerde(Serde[Any]):
    """The serde of a model, which can be a key's if its fields have an order."""

    kind: Any = field(kw_only=True)

    def bind(self, topic: str, is_key: bool) -> Serde[Any]:
        if is_key and _names_a_set(self.kind.__pydantic_core_schema__):
            raise TopologyError(
                f"keys of {topic}: {self.name} has a set, which pydantic writes in another order in every process, and "
                "equal keys need equal bytes; give the model a sorted list or tuple, or make it a dataclass"
            )
        return self


def _names_a_set(schema: Any) -> bool:
    """Looks through a model's schema, which consists of mappings and sequences."""
    if isinstance(schema, Mapping):
        return schema.get("type") in ("set", "frozenset") or any(map(_names_a_set, schema.values()))
    return isinstance(schema, list | tuple) and any(map(_names_a_set, schema))


def _written(kind: Any, name: str, encode: Callable[[T], bytes], read: Callable[[bytes], T]) -> Callable[[T], bytes]:
    careful = _checking(kind, name, written_to_last(name, encode, read))
    try:
        return written_as_shaped(encode, shape_of(described(kind)), careful, read)
    except NoShapeError:
        return careful


def _order(kind: Any) -> Literal["deterministic"] | None:
    """Sets are sorted: Python's own order is another one in every process. All else stays in the order it has."""
    return "deterministic" if _has_set(_checked_kind(kind, lambda: described(kind)), set()) else None


def _has_set(part: Any, seen: set[int]) -> bool:
    if isinstance(part, inspect.SetType | inspect.FrozenSetType):
        return True
    if id(part) in seen:
        return False
    seen.add(id(part))
    if isinstance(part, msgspec.Struct):
        return any(_has_set(getattr(part, name), seen) for name in part.__struct_fields__)
    return isinstance(part, list | tuple) and any(_has_set(each, seen) for each in part)


def _told(validate: Callable[[], T]) -> T:
    """Every fault of a model in one line, each with the field's path."""
    try:
        return validate()
    except ValueError as error:
        errors = getattr(error, "errors", None)
        if errors is None:
            raise
        faults = (f"{each['msg']} - at `{_path(each['loc'])}`" for each in errors(include_url=False))
        raise ValueError("; ".join(faults)) from error


def _path(parts: tuple[str | int, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _checking(kind: Any, name: str, encode: Callable[[T], bytes]) -> Callable[[T], bytes]:
    """``encode`` for values of the type only, where a type is something that has instances."""
    if not isinstance(kind, type) or kind is object or is_typeddict(kind):
        return encode

    def serialize(value: T) -> bytes:
        _require(value, kind, name)
        return encode(value)

    return serialize


def _require(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise wrong_type(value, name)


def _checked_kind(kind: Any, made: Callable[[], T]) -> T:
    try:
        return made()
    except TypeError as error:
        raise TopologyError(
            f"{_name(kind)} has no serde: {error}; give a dataclass, a msgspec struct or a pydantic model, or make a "
            "serde with Serdes.of(...)"
        ) from error


def _plain(kind: Any) -> PlainForm:
    known = None if kind in (Any, object) else kind
    return PlainForm(
        lambda document: converted(document, kind), msgspec.to_builtins, lambda: example_of(described(kind)), known
    )


def protobuf_plain(kind: Any) -> PlainForm:
    """Returns Protobuf's own mapping to JSON."""

    def read(document: Any) -> Any:
        from google.protobuf import json_format  # the user's library; only commands come here

        return json_format.ParseDict(document, kind())

    def show(message: Any) -> Any:
        from google.protobuf import json_format

        return json_format.MessageToDict(message, preserving_proto_field_name=True)

    return PlainForm(read, show, fields=kind)


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)
