"""Reads what the API server sends: JSON that users wrote most of, nested as deeply as they like. Pure.

Called by the client, on every thread, and by the watches. The API server takes ten thousand levels, and
``managedFields`` mirrors them. Python's reader raises an error of its own at a thousand, its writer and most other code
at fewer. So levels that are too deep are cut off: a list in which one object is so has all others whole, and the object
has a mark where it was cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

#: Levels that are read; nothing that Kubernetes defines has a third of it.
DEEPEST = 100
#: Levels that a user's spec may have.
DEEPEST_SPEC = 40
#: The mark at a place where something was cut off.
CUT = "(nested too deeply)"

#: As a whole, or to the end of text that is no JSON.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKETS = b"{}[]"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))
#: A string as a whole, or what begins or ends a level.
_TOKEN = re.compile(_STRING.pattern + rb"|[\[{]|[\]}]", re.DOTALL)


def read_json(data: bytes) -> Any:
    """Reads JSON down to ``DEEPEST`` levels. Raises ``ValueError`` if it is none."""
    return json.loads(shallow(data))


def shallow(data: bytes) -> bytes:
    """Returns the same for a foreign reader: as it is, or cut to ``DEEPEST`` levels if it is too deep. Text that is no
    JSON may stay as it is: the reader says so."""
    return b"".join(_cut(data)) if _is_deep(data) else data


def depth_fault(value: Any, path: str, most: int = DEEPEST_SPEC) -> str | None:
    """Returns where ``value`` is nested more deeply than it may be, and the remedy; ``None`` if it is not. It goes
    level by level, so it needs no stack."""
    level = [(path, value)]
    for _ in range(most):
        level = [inner for place, each in level for inner in _inside(place, each)]
        if not level:
            return None
    return f"{level[0][0][:200]}...: nested more than {most} levels deep; nothing that runs needs that, remove it"


def _is_deep(data: bytes) -> bool:
    """Says whether a level below ``DEEPEST`` begins anywhere. Each round takes the innermost levels away, so there are
    never more rounds than levels; all of them run over the brackets alone, without a step of the interpreter's."""
    if data.count(b"{") + data.count(b"[") <= DEEPEST:
        return False
    left = _STRING.sub(b"", data).translate(None, _OTHERS)
    for _ in range(DEEPEST):
        inner = left.replace(b"{}", b"").replace(b"[]", b"")
        if len(inner) == len(left):
            return bool(left)  # what does not close is no JSON, and may be anything
        left = inner
    return bool(left)


def _inside(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the values that have levels of their own."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(inner, dict | list):
            yield (f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}"), inner


def _cut(data: bytes) -> Iterator[bytes]:
    level, begin = 0, 0
    for token in _TOKEN.finditer(data):
        match token[0]:
            case b"{" | b"[":
                level += 1
                if level == DEEPEST + 1:
                    yield data[begin : token.start()]
                    yield json.dumps(CUT).encode()
            case b"}" | b"]":
                if level == DEEPEST + 1:
                    begin = token.end()
                level -= 1
    yield data[begin:]
