"""Reads and writes the messages of Kafka's protocol, of which ``messages`` has the types.

Pure; used on the threads of connections. A type's annotations are its schema: its fields in the order of the wire, and
the versions that have them. What they come to in one version is worked out when it is first used. An answer is
untrusted: reading raises ``ValueError`` or ``struct.error`` for anything that is no such message, and allocates no more
than its bytes account for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import groupby
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from streamsapp.brokers.encoding import (
    INT16,
    INT32,
    NO_TAGS,
    Reader,
    compact_count,
    encoded_count,
    encoded_text,
    varint,
)


class In(NamedTuple):
    """The versions that have a field, those in which it may be none, and its number where it is tagged (KIP-482)."""

    first: int = 0
    last: int = 0x7FFF
    nullable: int = 0x7FFF
    tag: int = -1


#: Numbers and identifiers of a fixed size, each with its form in ``struct``.
Bool: TypeAlias = Annotated[bool, "?"]
Int8: TypeAlias = Annotated[int, "b"]
Int16: TypeAlias = Annotated[int, "h"]
UInt16: TypeAlias = Annotated[int, "H"]
Int32: TypeAlias = Annotated[int, "i"]
Int64: TypeAlias = Annotated[int, "q"]
Float64: TypeAlias = Annotated[float, "d"]
Uuid: TypeAlias = Annotated[bytes, "16s"]
NO_UUID = bytes(16)


class Structure(msgspec.Struct):
    """A message, or a part of one."""


class Whole(Structure):
    """A message that is not a part of another one."""

    #: The versions that are known, and the first that is compact (KIP-482).
    VERSIONS: ClassVar[tuple[int, int]]
    FIRST_COMPACT: ClassVar[int]


M = TypeVar("M", bound=Whole)
A = TypeVar("A", bound=Whole)


class Asking(Whole, Generic[A]):
    """A request, whose answer is an ``A``."""

    API_KEY: ClassVar[int]
    ANSWER: ClassVar[type[Whole]]


def encoded(message: Whole, version: int) -> bytes:
    """The bytes of a message, without any header. Raises ``ValueError`` or ``struct.error`` for values that the version
    cannot have; a field that it does not have is left out."""
    parts: list[bytes] = []
    _whole(type(message), version).write(message, parts)
    return b"".join(parts)


def decoded(kind: type[M], data: bytes | bytearray, version: int) -> M:
    """The message of these bytes, without any header. Raises ``ValueError`` or ``struct.error`` for anything else."""
    reader = Reader(data, compact=version >= kind.FIRST_COMPACT)
    message = read(kind, reader, version)
    reader.end()
    return message


def read(kind: type[M], reader: Reader, version: int) -> M:
    """As ``decoded``, of what comes next."""
    message: M = _whole(kind, version).read(reader)
    return message


def _whole(kind: type[Whole], version: int) -> _Layout:
    least, greatest = kind.VERSIONS
    if not least <= version <= greatest:
        raise ValueError(f"{kind.__name__} is known in versions {least} to {greatest}, and not in {version}")
    return _layout(kind, version, compact=version >= kind.FIRST_COMPACT)


class _Form(NamedTuple):
    """The form of one value in one version."""

    read: Callable[[Reader], Any]
    write: Callable[[Any, list[bytes]], object]
    #: The number of bytes that any takes at least.
    least: int
    #: The code of ``struct``; empty: it has no fixed size.
    code: str = ""


class _Layout:
    """A type in one version: the steps that read its values one after the other, and those that write them."""

    def __init__(self, kind: type[Structure], version: int, *, compact: bool) -> None:
        self._kind = kind
        #: The form of several numbers, or else what reads one value; at the end what reads those that are tagged.
        self._reads: list[tuple[struct.Struct | None, Callable[[Reader], Any]]] = []
        self._read_tags: Callable[[Reader], list[Any]] | None = None
        self._skip_tags = False
        self._writes: list[Callable[[Any, list[bytes]], object]] = []
        self.least = int(compact)
        fields = list(_fields_of(kind, version, compact=compact))
        for code, group in groupby(fields, key=lambda each: each.place(version)):
            if code == "fixed":
                self._add_fixed(list(group))
            elif code == "absent":
                self._reads += [(None, _absent(each.default)) for each in group]
            elif code == "other":
                for each in group:
                    self._add(each)
        # Modules have these fields last.
        self._add_tags([each for each in fields if each.of.tag >= 0], version, compact=compact)

    def read(self, reader: Reader) -> Any:
        values: list[Any] = []
        for numbers, read_one in self._reads:
            if numbers is None:
                values.append(read_one(reader))
            else:
                values += reader.read(numbers)
        if self._skip_tags:
            reader.skip_tags()
        elif self._read_tags is not None:
            values += self._read_tags(reader)
        return self._kind(*values)

    def write(self, message: Any, parts: list[bytes]) -> None:
        for step in self._writes:
            step(message, parts)

    def _add_fixed(self, fields: list[_Field]) -> None:
        """Fields of fixed sizes that follow one another are read and written at once."""
        form = struct.Struct(">" + "".join(each.form.code for each in fields))
        values, several = attrgetter(*(each.name for each in fields)), len(fields) > 1
        self._reads.append((form, _absent(None)))
        self._writes.append(
            (lambda message, parts: parts.append(form.pack(*values(message))))
            if several
            else (lambda message, parts: parts.append(form.pack(values(message))))
        )
        self.least += form.size

    def _add(self, field: _Field) -> None:
        (read, write, least, _), value = field.form, attrgetter(field.name)
        self._reads.append((None, read))
        self._writes.append(lambda message, parts: write(value(message), parts))
        self.least += least

    def _add_tags(self, tagged: list[_Field], version: int, *, compact: bool) -> None:
        present = [each for each in tagged if compact and each.is_in(version)]
        known = {each.of.tag: each.form.read for each in present}

        def read_tags(reader: Reader) -> list[Any]:
            told = reader.tags(known)
            return [told[each.of.tag] if each.of.tag in told else _fresh(each.default) for each in tagged]

        def write_tags(message: Any, parts: list[bytes]) -> None:
            told = []
            for each in present:
                if (value := getattr(message, each.name)) != each.default:
                    of_it: list[bytes] = []
                    each.form.write(value, of_it)
                    told.append(varint(each.of.tag) + varint(sum(map(len, of_it))) + b"".join(of_it))
            parts += (varint(len(told)), *told)

        if present:
            self._read_tags = read_tags
            self._writes.append(write_tags)
            return
        self._reads += [(None, _absent(each.default)) for each in tagged]
        if compact:
            self._skip_tags = True
            self._writes.append(lambda message, parts: parts.append(NO_TAGS))


@cache
def _layout(kind: type[Structure], version: int, *, compact: bool) -> _Layout:
    return _Layout(kind, version, compact=compact)


class _Field(NamedTuple):
    name: str
    of: In
    form: _Form
    default: Any

    def is_in(self, version: int) -> bool:
        """True if the version has it."""
        return self.of.first <= version <= self.of.last

    def place(self, version: int) -> str:
        """The kind of place that it has in a version."""
        if self.of.tag >= 0:
            return "tagged"
        return "absent" if not self.is_in(version) else "fixed" if self.form.code else "other"


def _fields_of(kind: type[Structure], version: int, *, compact: bool) -> Iterator[_Field]:
    hints, defaults = get_type_hints(kind, include_extras=True), kind()
    for name in kind.__struct_fields__:
        of = next((each for each in getattr(hints[name], "__metadata__", ()) if isinstance(each, In)), In())
        form = _form(hints[name], version, compact=compact, nullable=version >= of.nullable)
        yield _Field(name, of, form, getattr(defaults, name))


def _absent(default: Any) -> Callable[[Reader], Any]:
    return lambda reader: _fresh(default)


def _fresh(default: Any) -> Any:
    """Of a field that may be changed, each message has its own."""
    return [] if default == [] else type(default)() if isinstance(default, Structure) else default


def _form(hint: Any, version: int, *, compact: bool, nullable: bool) -> _Form:
    """The form of values of a type."""
    hint, code = _plain(hint)
    if code:
        return _fixed(code)
    if get_origin(hint) is list:
        item = _form(get_args(hint)[0], version, compact=compact, nullable=False)
        return _array(item, compact=compact, nullable=nullable)
    if hint is str:
        return _text(compact=compact, nullable=nullable)
    if hint is bytes:
        return _data(compact=compact, nullable=nullable)
    layout = _layout(hint, version, compact=compact)
    return _Form(layout.read, layout.write, layout.least)


def _plain(hint: Any) -> tuple[Any, str]:
    """A type without its versions and without none, and its code where its size is fixed."""
    code = ""
    while get_origin(hint) in (Annotated, UnionType):
        if get_origin(hint) is Annotated:
            code = next((each for each in hint.__metadata__ if isinstance(each, str)), code)
            hint = hint.__origin__
        else:
            (hint,) = (each for each in get_args(hint) if each is not NoneType)
    return hint, code


def _fixed(code: str) -> _Form:
    form = struct.Struct(">" + code)
    return _Form(
        lambda reader: reader.read(form)[0], lambda value, parts: parts.append(form.pack(value)), form.size, code
    )


def _text(*, compact: bool, nullable: bool) -> _Form:
    def write(value: str | None, parts: list[bytes]) -> None:
        _check(value, nullable=nullable)
        parts.append(encoded_text(value, compact=compact))

    return _Form(Reader.text_or_none if nullable else Reader.text, write, 1 if compact else INT16.size)


def _data(*, compact: bool, nullable: bool) -> _Form:
    def read_data(reader: Reader) -> bytes | None:
        found = reader.data_or_none()
        _check(found, nullable=nullable)
        return found

    def write(value: bytes | None, parts: list[bytes]) -> None:
        _check(value, nullable=nullable)
        parts += (_none(compact=compact),) if value is None else (encoded_count(len(value), compact=compact), value)

    return _Form(read_data, write, 1 if compact else INT32.size)


def _array(item: _Form, *, compact: bool, nullable: bool) -> _Form:
    code, read, least = item.code, item.read, item.least

    def read_array(reader: Reader) -> list[Any] | None:
        count = reader.count_or_none(least)
        if count is None:
            _check(None, nullable=nullable)
            return None
        if not count:
            return []
        return list(reader.read(_numbers(code, count))) if code else [read(reader) for _ in range(count)]

    def write(values: list[Any] | None, parts: list[bytes]) -> None:
        _check(values, nullable=nullable)
        if values is None:
            parts.append(_none(compact=compact))
            return
        parts.append(encoded_count(len(values), compact=compact))
        for each in values:
            item.write(each, parts)

    return _Form(read_array, write, 1 if compact else INT32.size)


@lru_cache(256)
def _numbers(code: str, count: int) -> struct.Struct:
    return struct.Struct(">" + code * count if code == "16s" else f">{count}{code}")


def _none(*, compact: bool) -> bytes:
    return compact_count(-1) if compact else INT32.pack(-1)


def _check(value: object, *, nullable: bool) -> None:
    if value is None and not nullable:
        raise ValueError("a value that may not be none is none")
