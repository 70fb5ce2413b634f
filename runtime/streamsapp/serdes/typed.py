"""Serdes of a user's own types: JSON and MessagePack with their fields checked, and Protobuf messages.

Made while a topology is built; they run on processing threads, for every record. Bytes that do not fit the type raise a
``ValueError`` that names the field, as ``$.items[3].price``, which the deserialization handler is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast, is_typeddict

import msgspec
import orjson

from streamsapp.errors import TopologyError
from streamsapp.serdes.api import PlainForm, Serde
from streamsapp.structs import converted, decoder

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
    return Serde(_checking(kind, name, msgspec.json.encode), read, name=name, plain=_plain(kind))


def msgpack_of(kind: type[T]) -> Serde[T]:
    """Returns the serde of a type as MessagePack, with dataclasses and structs as maps."""
    name = "msgpack" if kind in (Any, object) else f"msgpack({_name(kind)})"
    read = _checked_kind(kind, lambda: decoder(kind, "msgpack"))
    return Serde(_checking(kind, name, msgspec.msgpack.encode), read, name=name, plain=_plain(kind))


def protobuf_of(kind: type[M]) -> Serde[M]:
    """Returns the serde of a generated class of messages, their bytes alone, as without a schema registry.

    Equal messages have equal bytes, so they can be keys.
    """
    if not (hasattr(kind, "SerializeToString") and hasattr(kind, "ParseFromString")):
        raise TopologyError(f"Serdes.protobuf: {_name(kind)} is no class of Protobuf messages; give a generated one")
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
    def serialize(model: Any) -> bytes:
        _require(model, kind, name)
        return cast(str, model.model_dump_json(by_alias=True)).encode()

    def read(data: bytes) -> Any:
        return _told(lambda: kind.model_validate_json(data))

    def plain(document: Any) -> Any:
        return _told(lambda: kind.model_validate_json(orjson.dumps(document)))

    return Serde(
        serialize, read, name=name, plain=PlainForm(plain, lambda model: model.model_dump(mode="json", by_alias=True))
    )


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
        raise TypeError(f"got {type(value).__name__}, the serde is {name}; declare the serde of your values")


def _checked_kind(kind: Any, made: Callable[[], Callable[[bytes], T]]) -> Callable[[bytes], T]:
    try:
        return made()
    except TypeError as error:
        raise TopologyError(
            f"{_name(kind)} has no serde: {error}; give a dataclass, a msgspec struct or a pydantic model, or make a "
            "serde with Serdes.of(...)"
        ) from error


def _plain(kind: Any) -> PlainForm:
    return PlainForm(lambda document: converted(document, kind), msgspec.to_builtins)


def protobuf_plain(kind: Any) -> PlainForm:
    """Returns Protobuf's own mapping to JSON."""

    def read(document: Any) -> Any:
        from google.protobuf import json_format  # the user's library; only commands come here

        return json_format.ParseDict(document, kind())

    def show(message: Any) -> Any:
        from google.protobuf import json_format

        return json_format.MessageToDict(message, preserving_proto_field_name=True)

    return PlainForm(read, show)


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)
