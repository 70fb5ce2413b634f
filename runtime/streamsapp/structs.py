"""Documents as structures, read by one thread at a time.

Called by code that reads or checks a document of other authors, on any thread. msgspec (0.22.0) looks at a structure
when it is first read into or described, and two threads that do so at once crash the process. A ``Decoder`` that a
module makes when it is imported has looked before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Literal, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")

_lock = Lock()


def converted(document: object, kind: type[T]) -> T:
    """A decoded document as a structure; raises ``msgspec.ValidationError``."""
    with _lock:
        return msgspec.convert(document, kind)  # noqa: TID251 - the one place


def decoded(data: bytes | str, kind: type[T]) -> T:
    """A JSON text as a structure; raises ``msgspec.MsgspecError``, ``UnicodeDecodeError`` or ``RecursionError``."""
    with _lock:
        return msgspec.json.decode(data, type=kind)


def decoder(kind: type[T], form: Literal["json", "msgpack"]) -> Callable[[bytes], T]:
    """Returns what reads structures from bytes, having looked at the type: any thread may call it. Raises ``TypeError``
    for a type that nothing can be read into."""
    with _lock:
        return msgspec.json.Decoder(kind).decode if form == "json" else msgspec.msgpack.Decoder(kind).decode


def described(kind: type) -> inspect.Type:
    """Returns the parts of a structure, for callers that check a document themselves; looks at the structure as readers
    do."""
    with _lock:
        return _described(kind)


@cache
def _described(kind: type) -> inspect.Type:
    return inspect.type_info(kind)  # noqa: TID251 - the one place
