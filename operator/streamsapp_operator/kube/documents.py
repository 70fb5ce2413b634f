"""Reads what the API server sends: JSON that users wrote most of, nested as deeply as they like. Pure.

Called by the client, on every thread, and by whoever watches. The API server takes ten thousand levels, Python's reader
raises an error of its own at a thousand, and ``metadata.managedFields`` mirrors them. So what is too deep is cut off:
a list in which one object is so has all others whole, and the object has a mark where it was cut.
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

#: A string as a whole, or what begins or ends a level.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]', re.DOTALL)


def read_json(data: bytes) -> Any:
    """Reads JSON down to ``DEEPEST`` levels. Raises ``ValueError`` if it is none."""
    try:
        return json.loads(data)
    except RecursionError:
        return json.loads(b"".join(_cut(data)))


def shallow(data: bytes) -> bytes:
    """Returns the same for a reader of somebody else's: as it is, or cut to ``DEEPEST`` levels if it is too deep."""
    try:
        json.loads(data)
    except RecursionError:
        return b"".join(_cut(data))
    except ValueError:
        pass  # the reader says so
    return data


def depth_fault(value: Any, path: str, most: int = DEEPEST_SPEC) -> str | None:
    """Returns where ``value`` is nested more deeply than it may be, and the remedy; ``None`` if it is not. It goes
    level by level, so it needs no stack."""
    level = [(path, value)]
    for _ in range(most):
        level = [inner for place, each in level for inner in _inside(place, each)]
        if not level:
            return None
    return f"{level[0][0][:200]}...: nested more than {most} levels deep; nothing that runs needs that, remove it"


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
