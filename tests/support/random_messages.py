"""All messages that have types, and random ones of each in any version, for tests of the codec."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from random import Random
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import messages_by_hand
from streamsapp.brokers import messages
from streamsapp.brokers.codec import In, Structure, Whole

M = TypeVar("M", bound=Whole)

_RANGES = {"b": (-(1 << 7), (1 << 7) - 1), "h": (-(1 << 15), (1 << 15) - 1), "i": (-(1 << 31), (1 << 31) - 1)}
_RANGES |= {"H": (0, (1 << 16) - 1), "q": (-(1 << 63), (1 << 63) - 1)}


def kinds() -> list[type[Whole]]:
    """The types of all messages."""
    found: dict[str, type[Whole]] = {}
    for package in (messages, messages_by_hand):
        for module in pkgutil.iter_modules(package.__path__):
            for each in vars(import_module(f"{package.__name__}.{module.name}")).values():
                if isinstance(each, type) and issubclass(each, Whole) and "VERSIONS" in vars(each):
                    found[each.__name__] = each
    return list(found.values())


def kinds_and_versions() -> Iterator[tuple[type[Whole], int]]:
    """All messages in all versions that are known."""
    for kind in kinds():
        for version in range(kind.VERSIONS[0], kind.VERSIONS[1] + 1):
            yield kind, version


def random_message(kind: type[M], version: int, random: Random) -> M:
    """A message that has what this version has, and everything else as it is by itself."""
    found: M = _part(kind, version, random, compact=version >= kind.FIRST_COMPACT)
    return found


def _part(kind: type[Structure], version: int, random: Random, *, compact: bool) -> Any:
    fields = {}
    for name, hint in _hints(kind).items():
        of = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, In)), In())
        if of.first <= version <= of.last and (compact or of.tag < 0) and (of.tag < 0 or random.random() < 0.5):
            nullable = version >= of.nullable
            fields[name] = None if nullable and random.random() < 0.2 else _value(hint, version, random, compact)
    return kind(**fields)


@cache
def _hints(kind: type[Structure]) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in kind.__struct_fields__}


def _value(hint: Any, version: int, random: Random, compact: bool) -> Any:
    if get_origin(hint) is UnionType:
        return _value(next(each for each in get_args(hint) if each is not NoneType), version, random, compact)
    if get_origin(hint) is Annotated:
        code = hint.__metadata__[0]
        return _fixed(code, random) if isinstance(code, str) else _value(hint.__origin__, version, random, compact)
    if get_origin(hint) is list:
        return [_value(get_args(hint)[0], version, random, compact) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    if hint is str:
        return "".join(random.choices("aZ-.7 \0\x7f\u00e9\u20ac\U0001f600", k=random.choice((0, 1, 5, 126, 127, 300))))
    if hint is bytes:
        return random.randbytes(random.choice((0, 1, 126, 127, 128, 300)))
    return _part(hint, version, random, compact=compact)


def _fixed(code: str, random: Random) -> Any:
    if code == "?":
        return random.random() < 0.5
    if code == "16s":
        return random.randbytes(16)
    least, greatest = _RANGES[code]
    return random.choice((least, greatest, -1 if least else 1, 0, random.randint(least, greatest)))
