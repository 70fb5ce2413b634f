"""The interface of a serde: two plain callables, and whether their results may be shared.

Called on processing threads (deserialise input, serialise output) and on the polling thread (state at commit).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from streamsapp.record import Headers

T = TypeVar("T")


def identity(value: Any) -> Any:
    """Returns its argument: two forms of it are the same. The parts in C do not call it."""
    return value


def is_ours(function: Callable[..., Any]) -> bool:
    """Says whether a function is one of this package's, in Python or in C."""
    module: str = getattr(function, "__module__", None) or type(function).__module__
    return module.startswith("streamsapp.")


class PlainForm(NamedTuple):
    """The form in which values are written by hand and shown, as JSON can say it. Commands use it, never a task per
    record."""

    #: Gives the value, or raises ``ValueError`` or ``TypeError``.
    read: Callable[[Any], Any]
    show: Callable[[Any], Any]
    #: Gives an example in this form, if the type says what its values are.
    example: Callable[[], Any] | None = None
    #: The class that has the values' fields, or the text of their Avro schema. ``None`` where values may be anything.
    fields: Any = None


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
    #: ``None`` where JSON can say what the values are.
    plain: PlainForm | None = None
    #: The header that may hold the beginning of the bytes, the id of their schema. Written bytes hold it themselves.
    id_header: str | None = None

    def read(self, data: bytes, headers: Headers | None) -> T:
        """The value of a record's bytes, with what its headers say of them."""
        return self.deserialize(data if self.id_header is None else behind_id(self.id_header, headers, data))

    def bind(self, topic: str, is_key: bool) -> Serde[T]:
        """The serde for one topic; overridden by serdes that depend on the topic (schema registries).

        Called once per task and topic, never per record.
        """
        return self

    def or_default(self, defaults: DefaultSerdes) -> Serde[T]:
        """The serde once the configured defaults are known; overridden by serdes whose parts they may stand in for."""
        return self

    def from_plain(self, plain: Any) -> T:
        """The value that a user wrote as JSON; raises ``ValueError`` or ``TypeError``. ``None`` never gets here."""
        value: T = plain if self.plain is None else self.plain.read(plain)
        return value

    def to_plain(self, value: T) -> Any:
        """The value as JSON can say it. ``None`` never gets here."""
        return value if self.plain is None else self.plain.show(value)


def behind_id(header: str, headers: Headers | None, data: bytes) -> bytes:
    """Returns bytes behind the id that the headers of their record have for them, if they have one."""
    return next((value + data for name, value in headers or () if name == header and value is not None), data)


#: A serde of anything; what a node holds once types are erased.
AnySerde = Serde[Any]


class DefaultSerdes(NamedTuple):
    """The configured defaults, for keys and for values that nothing was declared for."""

    key: AnySerde
    value: AnySerde


def or_configured(serde: AnySerde | None, defaults: DefaultSerdes) -> AnySerde:
    """The serde that was declared for values, or the configured one. The configured ones also stand in for parts that
    were not declared."""
    return (serde or defaults.value).or_default(defaults)
