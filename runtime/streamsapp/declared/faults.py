"""Finds every fault of a decoded document against a typed structure, each with the path of its field.

Called for a manifest and for what it declares. A decoder stops at the first error; a user wants them all at once. Pure.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from msgspec import inspect

from streamsapp.structs import described

#: Of one document; who has more mends these first.
MAX_FAULTS = 100
#: Names that a misspelt one is compared with, and that are listed.
_MAX_NAMES = 100

#: ``user:password@`` in a URL.
_CREDENTIALS = re.compile(r"//[^/@\s]*@")


def faults_of(document: object, structure: type, path: str = "") -> list[str]:
    """Returns one line per fault: ``spec.processing.threads: expected an integer ≥ 1, got 'two'``.

    A type annotated with ``Meta(extra={"check": function})`` is checked by that function alone, which returns the
    fault of a value or ``None``.
    """
    return list(islice(_check(document, described(structure), path), MAX_FAULTS))


def _check(value: object, expected: inspect.Type, path: str) -> Iterator[str]:
    match expected:
        case inspect.UnionType(types=types):
            yield from _check_union(value, types, path)
        case inspect.StructType() if isinstance(value, dict):
            yield from _check_struct(value, expected, path)
        case inspect.DictType(value_type=value_type) if isinstance(value, dict):
            for key, item in value.items():
                yield from _check(item, value_type, join(path, str(key)))
        case inspect.ListType(item_type=item_type, min_length=shortest) if isinstance(value, list):
            if len(value) < (shortest or 0):
                yield f"{path}: expected a list that is not empty"
            for index, item in enumerate(value):
                yield from _check(item, item_type, f"{path}[{index}]")
        case inspect.Metadata(extra={"check": check}):
            fault = check(value)
            if fault is not None:
                yield f"{path}: {fault}"
        case _:
            if not _fits(value, expected):
                yield f"{path or 'the document'}: expected {_describe(expected, value)}, got {shown(value)}"


def _check_union(value: object, types: tuple[inspect.Type, ...], path: str) -> Iterator[str]:
    """``X | None`` is checked as ``X``; among several plain types one has to fit."""
    present = [member for member in types if not isinstance(member, inspect.NoneType)]
    if value is None and len(present) < len(types):
        return
    if len(present) == 1:
        yield from _check(value, present[0], path)
    elif not any(_fits(value, member) for member in present):
        descriptions = dict.fromkeys(_describe(member) for member in present)
        if "a number" in descriptions:
            descriptions.pop("an integer", None)
        expected = " or ".join(descriptions)
        yield f"{path}: expected {expected}, got {shown(value)}"


def _check_struct(value: dict[Any, Any], expected: inspect.StructType, path: str) -> Iterator[str]:
    fields = {field.encode_name: field for field in expected.fields}
    for key, item in value.items():
        if key in fields:
            yield from _check(item, fields[key].type, join(path, key))
        elif expected.forbid_unknown_fields:
            yield f"{join(path, str(key))}: unknown field{did_you_mean(str(key), list(fields))}"
    for name, field in fields.items():
        if field.required and name not in value:
            yield f"{join(path, name)}: is required{_purpose(field.type)}"


def _fits(value: object, expected: inspect.Type) -> bool:
    match expected:
        case inspect.Metadata(type=inner):
            return _fits(value, inner)
        case inspect.IntType(ge=least, le=most):
            return (
                isinstance(value, int)
                and not isinstance(value, bool)
                and (least is None or value >= least)
                and (most is None or value <= most)
            )
        case inspect.StrType(min_length=shortest, pattern=pattern):
            return (
                isinstance(value, str)
                and len(value) >= (shortest or 0)
                and (pattern is None or re.search(pattern, value) is not None)
            )
        case inspect.LiteralType(values=values):
            return isinstance(value, str) and value in values
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case inspect.DictType():
            return isinstance(value, dict)
        case inspect.ListType():
            return isinstance(value, list)
        case _:
            return isinstance(expected, inspect.AnyType)


def _describe(expected: inspect.Type, value: object = None) -> str:
    match expected:
        case inspect.Metadata(extra_json_schema=schema) if schema:
            return str(schema["description"])
        case inspect.IntType(le=most) if isinstance(value, int) and most is not None and value > most:
            return f"an integer ≤ {most}"
        case inspect.IntType(ge=least):
            return "an integer" if least is None else f"an integer ≥ {least}"
        case inspect.StrType(min_length=shortest):
            return "text that is not empty" if shortest else "text"
        case inspect.LiteralType(values=values):
            return " or ".join(repr(value) for value in values)
        case inspect.BoolType():
            return "true or false"
        case inspect.FloatType():
            return "a number"
        case inspect.ListType():
            return "a list"
        case _:
            return "a mapping"


def _purpose(expected: inspect.Type) -> str:
    return f" and must be {_describe(expected)}" if isinstance(expected, inspect.LiteralType) else ""


def did_you_mean(given: str, known: Collection[str], what: str = "known fields") -> str:
    """The end of a message about a name that is none of ``known``."""
    known = list(islice(known, _MAX_NAMES))
    close = difflib.get_close_matches(given[:_MAX_NAMES], known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; {what} are {', '.join(known)}" if known else ""


def shown(value: object) -> str:
    """A value in a message."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case int() if value.bit_length() > 64:  # there may be too many digits to write them
            return "a number of more than 64 bits"
        case list():
            return "a list"
        case _:
            text = _CREDENTIALS.sub("//[hidden]@", repr(value))
            return text if len(text) <= 60 else f"{text[:57]}..."


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
