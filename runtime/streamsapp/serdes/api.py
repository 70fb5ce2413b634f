"""The interface of a serde: two plain callables, and whether their results may be shared.

Called on processing threads (deserialise input, serialise output) and on the polling thread (state at commit).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Serde(Generic[T]):
    """Turns values into bytes and back. ``None`` never reaches a serde: a null key or value stays null.

    ``immutable`` says that values cannot be changed in place (str, int, bytes, ...): state then keeps the object
    itself until the commit instead of serialising at every put.
    """

    serialize: Callable[[T], bytes]
    deserialize: Callable[[bytes], T]
    immutable: bool = False
    name: str = "custom"
    #: Gives a value back, or raises what ``serialize`` would, at less cost; without it ``serialize`` itself is asked.
    #: State that keeps objects until the commit learns with it, when a value is put, whether it can be written then.
    checked: Callable[[T], T] | None = None
    #: Every ``int`` from the first to the second can be written: the same for whole numbers, without a call.
    bounds: tuple[int, int] | None = None

    def bind(self, topic: str, is_key: bool) -> Serde[T]:
        """The serde for one topic; overridden by serdes that depend on the topic (schema registries).

        Called once per task and topic, never per record.
        """
        return self

    def or_default(self, default: AnySerde) -> Serde[T]:
        """The serde once the configured default is known; overridden by serdes whose parts it may stand in for."""
        return self


#: A serde of anything; what a node holds once types are erased.
AnySerde = Serde[Any]
