"""``Serdes``: the serdes that come with the library, their bytes equal to those of Kafka's Java serdes.

Users name them where a topology needs one; they run on processing threads, for every record, so the commonest are
bare built-in functions.
"""

from __future__ import annotations

import builtins
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, NoReturn, overload

from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import java_names
from streamsapp.native import require_bytes
from streamsapp.serdes.api import PlainForm, Serde, T, identity
from streamsapp.serdes.java_text import java_uuid, replacing_string
from streamsapp.serdes.json_text import read_json, write_whatever
from streamsapp.serdes.lists import list_serde
from streamsapp.serdes.numbers import FixedSizeSerde, number_serde
from streamsapp.serdes.read_back import written_as_shaped, written_to_last
from streamsapp.serdes.shapes import PLAIN
from streamsapp.serdes.suggestion import wrong_type
from streamsapp.serdes.typed import M, json_of, msgpack_of, protobuf_of
from streamsapp.serdes.windowed import Windowed, session_windowed, time_windowed

_UUID_SIZE = 36


def _checked_string(value: str) -> str:
    if value.__class__ is not str or not value.isascii():
        str.encode(value)
    return value


def _require_text(plain: str) -> str:
    if isinstance(plain, str):
        return plain
    raise wrong_type(plain, "string")


def _from_base64(text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"got {type(text).__name__}, the serde is bytes: write them as base64")
    return b64decode(text, validate=True)


def _to_base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _serialize_boolean(value: bool) -> bytes:
    if value is True:
        return b"\x01"
    if value is False:
        return b"\x00"
    raise wrong_type(value, "boolean")


def _deserialize_boolean(data: bytes) -> bool:
    if data == b"\x01":
        return True
    if data == b"\x00":
        return False
    raise ValueError(f"boolean takes one byte, 00 or 01, got {len(data)} bytes: {data[:8].hex(' ')}")


def _serialize_uuid(value: uuid.UUID) -> bytes:
    if isinstance(value, uuid.UUID):
        return str(value).encode()
    raise wrong_type(value, "uuid")


def _deserialize_uuid(data: bytes) -> uuid.UUID:
    return java_uuid(data.decode())


def _plain_uuid(plain: str) -> uuid.UUID:
    return java_uuid(_require_text(plain))


def _serialize_void(value: None) -> NoReturn:
    raise TypeError(f"got {type(value).__name__}, the serde is void: only None can be written")


def _deserialize_void(data: bytes) -> NoReturn:
    raise ValueError(f"got {len(data)} bytes, the serde is void: only null can be read")


_STRING: Serde[str] = Serde(
    str.encode, bytes.decode, True, "string", _checked_string, plain=PlainForm(_require_text, identity)
)
_BYTES: Serde[bytes] = Serde(
    require_bytes, identity, True, "bytes", require_bytes, plain=PlainForm(_from_base64, _to_base64)
)
_SHORT: Serde[int] = number_serde("short", ">h")
_INTEGER: Serde[int] = number_serde("integer", ">i")
_LONG: Serde[int] = number_serde("long", ">q")
_FLOAT: Serde[float] = number_serde("float", ">f")
_DOUBLE: Serde[float] = number_serde("double", ">d")
_BOOLEAN: Serde[bool] = Serde(_serialize_boolean, _deserialize_boolean, immutable=True, name="boolean")
_UUID: Serde[uuid.UUID] = FixedSizeSerde(
    _serialize_uuid, _deserialize_uuid, True, "uuid", plain=PlainForm(_plain_uuid, str), size=_UUID_SIZE
)
_JSON: Serde[Any] = Serde(
    written_as_shaped(write_whatever, PLAIN, written_to_last("json", write_whatever, read_json), read_json),
    read_json,
    name="json",
)
_MSGPACK: Serde[Any] = msgpack_of(object)
_VOID: Serde[None] = Serde(_serialize_void, _deserialize_void, immutable=True, name="void")


@java_names("Serdes")
class Serdes:
    """Gives every serde by name; bytes are those of Kafka's Java serdes. ``None`` needs none: a null key or value stays
    null."""

    @staticmethod
    def string(*, errors: Literal["strict", "replace"] = "strict") -> Serde[str]:
        """Returns the serde that writes ``str`` as UTF-8.

        Bytes that are no UTF-8 raise an error, as do lone surrogates. With ``errors="replace"`` they are read and
        written as Java's ``StringSerializer`` and ``StringDeserializer`` do: as U+FFFD, and as ``?``.
        """
        if errors not in ("strict", "replace"):
            raise TopologyError(f"Serdes.string: errors is 'strict' or 'replace', not {errors!r}")
        return _STRING if errors == "strict" else replacing_string()

    @staticmethod
    def bytes() -> Serde[bytes]:
        """Returns the serde that leaves ``bytes`` as they are, the default where no serde is declared."""
        return _BYTES

    @staticmethod
    def short() -> Serde[int]:
        """Returns the serde that writes ``int`` in 2 bytes, big-endian and with a sign."""
        return _SHORT

    @staticmethod
    def integer() -> Serde[int]:
        """Returns the serde that writes ``int`` in 4 bytes, big-endian and with a sign."""
        return _INTEGER

    @staticmethod
    def long() -> Serde[int]:
        """Returns the serde that writes ``int`` in 8 bytes, big-endian and with a sign. Counts of the DSL have it."""
        return _LONG

    @staticmethod
    def float() -> Serde[float]:
        """Returns the serde that writes ``float`` in 4 bytes, rounded to single precision."""
        return _FLOAT

    @staticmethod
    def double() -> Serde[builtins.float]:
        """Returns the serde that writes ``float`` in 8 bytes."""
        return _DOUBLE

    @staticmethod
    def boolean() -> Serde[bool]:
        """Returns the serde that writes ``bool`` in one byte, 0 or 1."""
        return _BOOLEAN

    @staticmethod
    def uuid() -> Serde[uuid.UUID]:
        """Returns the serde that writes ``uuid.UUID`` as its 36 characters."""
        return _UUID

    @overload
    @staticmethod
    def json() -> Serde[Any]: ...

    @overload
    @staticmethod
    def json(kind: type[T]) -> Serde[T]: ...

    @staticmethod
    def json(kind: type[T] | None = None) -> Serde[Any]:
        """Returns a serde of JSON: of anything, or of a type whose fields are checked when it is read.

        ``kind`` is a dataclass, a msgspec struct, a pydantic model (which brings its own library), or another type
        that msgspec can read. Bytes that do not fit raise a ``ValueError`` with the path of the field. State serialises
        such values at every put, since they can be changed in place.
        """
        return _JSON if kind is None else json_of(kind)

    @overload
    @staticmethod
    def msgpack() -> Serde[Any]: ...

    @overload
    @staticmethod
    def msgpack(kind: type[T]) -> Serde[T]: ...

    @staticmethod
    def msgpack(kind: type[T] | None = None) -> Serde[Any]:
        """Returns a serde of MessagePack: of anything, or of a type whose fields are checked when it is read, as with
        ``json``."""
        return _MSGPACK if kind is None else msgpack_of(kind)

    @staticmethod
    def protobuf(kind: type[M]) -> Serde[M]:
        """Returns a serde of messages of a generated Protobuf class, without a schema's id: ``SchemaRegistry`` has one
        with it."""
        return protobuf_of(kind)

    @staticmethod
    def void() -> Serde[None]:
        """Returns the serde of keys or values that are always null; any other raises an error."""
        return _VOID

    @staticmethod
    def list_(inner: Serde[T]) -> Serde[list[T | None]]:
        """Returns a serde of lists of ``inner``'s values, in the bytes of Kafka's ``ListSerde`` (KIP-466)."""
        return list_serde(inner)

    @staticmethod
    def time_windowed(inner: Serde[T], size: int | timedelta) -> Serde[Windowed[T]]:
        """Returns a serde of the keys of time windows, whose length is ``size`` (a ``timedelta`` or milliseconds)."""
        return time_windowed(inner, size)

    @staticmethod
    def session_windowed(inner: Serde[T]) -> Serde[Windowed[T]]:
        """Returns a serde of the keys of session windows."""
        return session_windowed(inner)

    @staticmethod
    def of(
        serialize: Callable[[T], builtins.bytes],
        deserialize: Callable[[builtins.bytes], T],
        *,
        immutable: bool = False,
        name: str = "custom",
    ) -> Serde[T]:
        """Makes a serde of two functions of yours, which are never given ``None``. An error that one raises goes to the
        handler for such records.

        ``immutable=True`` says that values are never changed in place: state is faster then. ``name`` is used in
        messages.
        """
        return Serde(serialize, deserialize, immutable, name)
