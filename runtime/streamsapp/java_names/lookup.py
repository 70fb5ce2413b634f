"""Marks the classes that users come to with Kafka Streams' names, so that a name of Java's is answered with ours.

Classes are marked on the thread that imports them; a name is answered on the thread that asks for it. ``JavaNames`` is
a base of classes that programs are built with: its ``__getattr__`` runs for names that are not there only, and answers
every one. ``java_names`` decorates classes whose members are read for each record, and those whose names are asked for
on the class itself (``Serdes.String()``): it puts a descriptor under each of Java's names, so that every other name
costs what it did before.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from enum import EnumType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from streamsapp.java_names.classes import CLASSES
from streamsapp.java_names.members import GROUPED, MEMBERS

C = TypeVar("C", bound=type)

#: Python's own words, which everybody writes with an underscore here (``Consumed.with_``).
_KEYWORDS = ("as", "with")


class JavaNames:
    """Has none of the methods it is asked for here, and says which there are."""

    if not TYPE_CHECKING:  # or every name would be one for the type checker

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{type(self).__name__} has no {name!r}{_remedy(type(self), name)}", name=name)


class JavaNamedEnum(EnumType):
    """The class of an enumeration that answers names of Java's: an enumeration looks for no descriptors."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            raise AttributeError(f"{cls.__name__} has no {name!r}{_remedy(cls, name)}", name=name)


def java_names(java_class: str, also: Mapping[str, str] | None = None) -> Callable[[C], C]:
    """Returns the decorator of a class whose counterpart in Kafka Streams is ``java_class``; ``also`` has more names,
    each with its remedy."""
    table = {**MEMBERS.get(java_class, {}), **(also or {})}

    def mark(kind: C) -> C:
        members = _members(kind)
        answers = {**{_camel_case(name): f"here it is called {name}" for name in members if "_" in name}, **table}
        answers |= {f"{name}_": answers[name] for name in _KEYWORDS if name in answers}
        for name, answer in answers.items():
            if name not in members:
                setattr(kind, name, _JavaName(f"{kind.__name__} has no {name!r}; {answer}", name))
        return kind

    return mark


def unknown_class(name: str) -> str | None:
    """Returns what stands here for a class of Kafka Streams that is not here; ``None`` for any other name."""
    return CLASSES.get(name)


class _JavaName:
    """A name that is not there: asking for it raises ``AttributeError``, which says what is."""

    def __init__(self, message: str, name: str) -> None:
        self._message = message
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise AttributeError(self._message, name=self._name)


def _remedy(kind: type, name: str) -> str:
    if name.startswith("_"):
        return ""
    members = _members(kind)
    for java_class in (each.__name__ for each in kind.__mro__):
        answer = MEMBERS.get(java_class, {}).get(name.rstrip("_"))
        if answer is not None:
            return f"; {answer}"
    snake_case = _snake_case(name)
    if snake_case in members:
        return f"; here it is called {snake_case}"
    if snake_case in GROUPED and "group_by" in members:
        return "; group it first, with group_by_key() or group_by()"
    close = difflib.get_close_matches(snake_case, members, n=1)
    return f"; did you mean {close[0]}?" if close else f"; it has {', '.join(members)}"


def _members(kind: type) -> list[str]:
    names = {name for each in kind.__mro__ for name in vars(each)} | {*getattr(kind, "__dataclass_fields__", ())}
    return sorted(each for each in names if not each.startswith("_") and not isinstance(_member(kind, each), _JavaName))


def _member(kind: type, name: str) -> object:
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda letter: f"_{letter[0]}", name).lower()


def _camel_case(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda letter: letter[1].upper(), name)
