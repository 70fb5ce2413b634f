"""The base of the DSL's options: their arguments are a name, which may be left out, and what follows it by position.

Called by the constructors of the options, on the user's thread.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from typing import Any, ClassVar

from streamsapp.dsl.names import validate_name
from streamsapp.errors import TopologyError
from streamsapp.plain_text import plain_text
from streamsapp.serdes.api import Serde


class Option:
    """Takes the arguments of an option, and checks the fields that all have in common."""

    #: The fields that are given by position, the name first.
    _POSITIONS: ClassVar[tuple[str, ...]]

    def _take(self, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        for name, value in _arguments(type(self), self._POSITIONS, given, named).items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        for field_name in ("key_serde", "value_serde", "other_value_serde"):
            serde = getattr(self, field_name, None)
            if serde is not None and not isinstance(serde, Serde):
                raise TopologyError(f"{type(self).__name__}({field_name}={serde!r}): that is not a serde; see Serdes")
        for field_name in ("name", "store_name"):
            name = getattr(self, field_name, None)
            if name is not None:
                validate_name(name)
                object.__setattr__(self, field_name, plain_text(name))


def _arguments(option: Any, positions: Sequence[str], given: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
    """Returns the value of every field of an option, which is a dataclass; ``positions`` begin with its name.

    Raises ``TopologyError`` for an argument too many, twice or unknown, and for a name that does not come first.
    """
    known = {each.name: each for each in fields(option)}
    values = _by_position(option.__name__, positions, given, named)
    for name, value in named.items():
        if name not in known:
            raise TopologyError(_unknown(option.__name__, name, [*known]))
        if name in values:
            raise TopologyError(f"{option.__name__}: {name} is given twice, by position and by name")
        if value is not None or known[name].default_factory is MISSING:
            values[name] = value
    return {name: values[name] if name in values else _default(each) for name, each in known.items()}


def _has_name(positions: Sequence[str], given: Sequence[Any], named: Container[str]) -> bool:
    """Says whether the first argument is the name: text, or ``None`` where all that may follow is there, too."""
    if not given or given[0] is not None:
        return bool(given) and isinstance(given[0], str)
    return len(given) == len(positions) or any(each in named for each in positions[1 : len(given) + 1])


def _by_position(kind: str, positions: Sequence[str], given: Sequence[Any], named: Container[str]) -> dict[str, Any]:
    order = positions if _has_name(positions, given, named) else positions[1:]
    name = next((each for each in given[1:] if isinstance(each, str)), None)
    if name is not None:
        first = f"{kind}({', '.join([repr(name), *positions[1:]])})"
        raise TopologyError(f"{kind}: the name comes first, {first}, or by name: {positions[0]}={name!r}")
    if len(given) > len(order):
        raise TopologyError(f"{kind} takes {', '.join(positions)} by position, and all else by name")
    return dict(zip(order, given, strict=False))


def _default(each: Field[Any]) -> Any:
    return each.default_factory() if each.default_factory is not MISSING else each.default


def _unknown(kind: str, name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"{kind} has no {name!r}; " + (f"did you mean {close[0]}?" if close else f"it has {', '.join(known)}")
