"""Avro's unions as Java resolves them: a value is read as the branch of its own type, and only without one as a branch
that its type can be promoted to. fastavro (1.13) takes the first branch of either kind, so that a long which is read as
``["null", "double", "long"]`` loses digits.

Called on processing threads, once for each schema that values were written with. It orders the branches of the reader's
unions so that the first one which fits is the one that Java takes. Unions that no order suits are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: A type is promoted to those behind it.
_NUMBERS = ("int", "long", "float", "double")
#: Each of these is promoted to the other.
_TEXT = {"string": ("bytes",), "bytes": ("string",)}
_NAMED = frozenset({"record", "error", "enum", "fixed"})


def ordered_for(writer: Any, reader: Any) -> Any:
    """Returns the reader's schema with its unions in the order that this writer's values need, where they meet. Both
    schemas have been parsed: names are full, and each type is defined where it is named first."""
    written, read = _plain(writer), _plain(reader)
    _Order(written, read).pair(written, read)
    return _defined_first(read, _types_of(read), set())


def as_given(reader: Any) -> Any:
    """Returns a parsed schema in the form that :func:`ordered_for` gives, its unions in their own order."""
    read = _plain(reader)
    return _defined_first(read, _types_of(read), set())


class _Order:
    """Goes through two schemas side by side."""

    def __init__(self, writer: Any, reader: Any) -> None:
        self._written, self._read = _types_of(writer), _types_of(reader)
        self._seen: set[tuple[str, str]] = set()

    def pair(self, writer: Any, reader: Any) -> None:
        """Orders the unions of the reader's part where it reads values of the writer's part."""
        writer, reader = self._written.get(_key(writer), writer), self._read.get(_key(reader), reader)
        branches = writer if isinstance(writer, list) else [writer]
        if isinstance(reader, list):
            reader.sort(key=lambda branch: self._rank(branches, branch))
            for each in branches:
                self._check(each, reader)
                for branch in reader:
                    if self._type(each, self._written) == self._type(branch, self._read):
                        self.pair(each, branch)
        elif isinstance(writer, list):
            for each in branches:
                self.pair(each, reader)
        elif isinstance(writer, dict) and isinstance(reader, dict):
            self._parts(writer, reader)

    def _parts(self, writer: dict[str, Any], reader: dict[str, Any]) -> None:
        for inner in ("items", "values"):
            if inner in writer and inner in reader:
                self.pair(writer[inner], reader[inner])
        names = str(writer.get("name")), str(reader.get("name"))
        if "fields" not in writer or "fields" not in reader or names in self._seen:
            return
        self._seen.add(names)
        fields = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            found = next((fields[name] for name in (field["name"], *field.get("aliases", ())) if name in fields), None)
            if found is not None:
                self.pair(found["type"], field["type"])

    def _rank(self, writers: Iterable[Any], branch: Any) -> tuple[int, int]:
        """Types of the same full name come first, then those of the same kind; of numbers the narrower ones."""
        kind = self._type(branch, self._read)
        alike = [each for each in writers if self._type(each, self._written) == kind]
        named = kind in _NAMED and not any(_full_name(each) == _full_name(branch) for each in alike)
        return (2 if not alike else 1 if named else 0), _NUMBERS.index(kind) if alike and kind in _NUMBERS else 0

    def _check(self, writer: Any, branches: list[Any]) -> None:
        """Raises ``ValueError`` where another branch than that of the same name or type still comes first."""
        kind, name = self._type(writer, self._written), _full_name(writer)
        same = [each for each in branches if self._type(each, self._read) == kind]
        exact = [each for each in same if kind not in _NAMED or _full_name(each) == name]
        first = next(
            (each for each in branches if each in same or self._type(each, self._read) in _TEXT.get(kind, ())), 0
        )
        if exact and first not in exact and (first not in same or _last(_full_name(first)) == _last(name)):
            raise ValueError(
                f"a union of {name} and {_full_name(first)} cannot be read with another schema than it was written "
                "with: each fits the other; use registry.avro() without a schema, which reads with the writer's"
            )

    @staticmethod
    def _type(schema: Any, types: Mapping[str, Any]) -> str:
        schema = types.get(_key(schema), schema)
        return "union" if isinstance(schema, list) else str(schema["type"] if isinstance(schema, dict) else schema)


def _key(schema: Any) -> str:
    return schema if isinstance(schema, str) else ""


def _full_name(schema: Any) -> str:
    return str(schema.get("name", schema["type"]) if isinstance(schema, dict) else schema)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _plain(schema: Any) -> Any:
    """A copy without what the parser notes."""
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if not key.startswith("__")}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


def _types_of(schema: Any) -> dict[str, Any]:
    """The definitions of a schema by full name."""
    found: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            if each.get("type") in _NAMED:
                found[each["name"]] = each
            waiting += [each[name] for name in ("items", "values") if name in each]
            waiting += [field["type"] for field in each.get("fields", ())]
    return found


def _defined_first(schema: Any, types: Mapping[str, Any], known: set[str]) -> Any:
    """The schema with each type defined where it is named first, which the new order of a union may have moved."""
    if isinstance(schema, list):
        return [_defined_first(each, types, known) for each in schema]
    schema = types.get(_key(schema), schema)
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in _NAMED:
        if schema["name"] in known:
            return schema["name"]
        known.add(schema["name"])
    made = dict(schema)
    for inner in ("items", "values"):
        if inner in made:
            made[inner] = _defined_first(made[inner], types, known)
    if "fields" in made:
        made["fields"] = [each | {"type": _defined_first(each["type"], types, known)} for each in made["fields"]]
    return made
