"""Checks any document of a manifest, wherever it comes from: only values that JSON has, and not too many.

Called before anything else looks at a document, which is untrusted: later checks may recurse and compare. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamsapp.declared.faults import MAX_FAULTS, join, shown

#: Twice what an API server keeps.
MAX_BYTES = 3 << 20
MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_KEY = 1024
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


def document_faults(document: object) -> list[str]:
    """Everything that no manifest has; no other check needs to look at a document with such faults."""
    faults: list[str] = []
    values = 0
    waiting: list[tuple[object, str, int]] = [(document, "", 0)]
    while waiting and len(faults) < MAX_FAULTS:
        value, path, depth = waiting.pop()
        values += 1
        if values > MAX_VALUES:
            return [f"the document: has more than {MAX_VALUES} values; divide it"]
        if depth > MAX_DEPTH:
            return [f"{_short(path)}: is nested more than {MAX_DEPTH} levels deep; a manifest needs no more"]
        if isinstance(value, dict):
            faults += _key_faults(value, path)
            waiting += reversed([
                (each, _short(join(path, key)), depth + 1)
                for key, each in value.items()
                if isinstance(key, str) and len(key) <= MAX_KEY
            ])  # fmt: skip
        elif isinstance(value, list):
            waiting += [(each, f"{path}[{index}]", depth + 1) for index, each in reversed(list(enumerate(value)))]
        else:
            fault = _fault(value)
            if fault is not None:
                faults.append(f"{_short(path) or 'the document'}: {fault}")
    return faults


def _key_faults(mapping: dict[object, object], path: str) -> Iterator[str]:
    for key in mapping:
        if not isinstance(key, str):
            yield f"{_short(path) or 'the document'}: the key {shown(key)} must be text; put it in quotes"
        elif len(key) > MAX_KEY:
            yield f"{_short(path) or 'the document'}: the key {shown(key)} has more than {MAX_KEY} characters"
        elif _has_surrogate(key):
            yield f"{_short(path) or 'the document'}: the key {shown(key)} is half a character; correct it"


def _fault(value: object) -> str | None:
    match value:
        case str() if _has_surrogate(value):
            return f"{shown(value)} has half a character (a surrogate alone); correct it"
        case bool() | str() | None:
            return None
        case int() if not _LEAST <= value <= _MOST:
            return "expected a number of at most 64 bits"
        case int():
            return None
        case float() if value - value == 0:  # neither infinite nor NaN
            return None
        case float():
            return f"{value} is no number that a manifest can have"
        case _:
            return f"expected text, a number, true, false, a list or a mapping, got {type(value).__name__}"


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _short(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:197]}..."
