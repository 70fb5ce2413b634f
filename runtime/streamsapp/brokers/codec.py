"""Reads and writes the messages of Kafka's protocol; ``messages`` has their types.

Pure; used on the threads of connections. A type's annotations are its schema: its fields in the order of the wire, and
the versions that have them. The steps for one version are worked out when it is first used. An answer is untrusted:
reading raises ``ValueError`` or ``struct.error`` for anything that is no such message, and allocates no more than its
bytes account for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
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

#: Later than any version.
NEVER = 0x7FFF


class In(NamedTuple):
    """The versions that have a field, the versions in which it may be none, its number where it is tagged (KIP-482),
    and whether another version may leave out what it says."""

    first: int = 0
    last: int = NEVER
    nullable: int = NEVER
    tag: int = -1
    ignorable: bool = True


class UnsupportedVersionError(ValueError):
    """A message says something that a version cannot say and that may not be left out."""


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
    cannot have. Raises ``UnsupportedVersionError`` for a field that it lacks and that may not be left out."""
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
    """A type in one version: the steps that read its values one after the other, and the steps that write them."""

    def __init__(self, kind: type[Structure], version: int, *, compact: bool) -> None:
        self._kind = kind
        #: The readers of values, each with a size if it reads numbers, which are several then; another reader reads the
        #: tagged ones, at the end.
        self._reads: list[tuple[int, Callable[..., Any]]] = []
        self._read_tags: Callable[[Reader], list[Any]] | None = None
        self._skip_tags = False
        fields = list(_fields_of(kind, version, compact=compact))
        self._writes: list[Callable[[Any, list[bytes]], object]] = [
            partial(_refuse, each, version) for each in fields if not (each.present or each.of.ignorable)
        ]
        self.least = int(compact)
        for place, group in groupby(fields, key=lambda each: each.place):
            if place == "fixed":
                self._add_fixed(list(group))
            elif place == "absent":
                self._reads += [(0, _absent(each.default)) for each in group]
            elif place == "other":
                for each in group:
                    self._add(each)
        # Modules have these fields last.
        self._add_tags([each for each in fields if each.of.tag >= 0], compact=compact)

    def read(self, reader: Reader) -> Any:
        values: list[Any] = []
        for size, step in self._reads:
            if size:
                values += step(reader.whole, reader.at)
                reader.at += size
            else:
                values.append(step(reader))
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
        self._reads.append((form.size, form.unpack_from))
        self._writes.append(
            (lambda message, parts: parts.append(form.pack(*values(message))))
            if several
            else (lambda message, parts: parts.append(form.pack(values(message))))
        )
        self.least += form.size

    def _add(self, field: _Field) -> None:
        (read, write, least, _), value = field.form, attrgetter(field.name)
        self._reads.append((0, read))
        self._writes.append(lambda message, parts: write(value(message), parts))
        self.least += least

    def _add_tags(self, tagged: list[_Field], *, compact: bool) -> None:
        present = [each for each in tagged if each.present]
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
        self._reads += [(0, _absent(each.default)) for each in tagged]
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
    #: True if the version has it.
    present: bool

    @property
    def place(self) -> str:
        """The kind of place that it has in the version."""
        if self.of.tag >= 0:
            return "tagged"
        return "absent" if not self.present else "fixed" if self.form.code else "other"


def _fields_of(kind: type[Structure], version: int, *, compact: bool) -> Iterator[_Field]:
    hints, defaults = get_type_hints(kind, include_extras=True), kind()
    for name in kind.__struct_fields__:
        of = next((each for each in getattr(hints[name], "__metadata__", ()) if isinstance(each, In)), In())
        form = _form(hints[name], version, compact=compact, nullable=version >= of.nullable)
        present = of.first <= version <= of.last and (compact or of.tag < 0)
        yield _Field(name, of, form, getattr(defaults, name), present)


def _absent(default: Any) -> Callable[[Reader], Any]:
    if isinstance(default, list | Structure):
        return lambda reader: _fresh(default)
    return lambda reader: default


def _refuse(field: _Field, version: int, message: Any, parts: list[bytes]) -> None:
    value, of = getattr(message, field.name), field.of
    if value != field.default:
        needed = f"version {of.first}" + (" or a later one" if of.last == NEVER else f" to {of.last}")
        raise UnsupportedVersionError(
            f"{type(message).__name__}.{field.name} is {value!r}, which version {version} of the message cannot say:"
            f" {needed} is needed. Use newer brokers, or do without it"
        )


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
    def write(value: bytes | None, parts: list[bytes]) -> None:
        _check(value, nullable=nullable)
        parts += (_none(compact=compact),) if value is None else (encoded_count(len(value), compact=compact), value)

    return _Form(Reader.data_or_none if nullable else Reader.data, write, 1 if compact else INT32.size)


def _array(item: _Form, *, compact: bool, nullable: bool) -> _Form:
    code, read, least = item.code, item.read, item.least

    def read_array(reader: Reader) -> list[Any] | None:
        count = reader.count_or_none(least)
        if count is None:
            _check(None, nullable=nullable)
            return None
        if not code:
            return [read(reader) for _ in range(count)]
        at = reader.at
        reader.at = at + least * count
        return list(_numbers(code, count).unpack_from(reader.whole, at))

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
        raise ValueError("a value is None where the schema needs one")
