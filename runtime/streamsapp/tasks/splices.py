"""Finds the places where the nodes of a wired task keep the push functions of their children.

Called once for a task, on the thread of somebody who looks at it. A chain of nodes is a chain of closures, so what a
node pushes to is in a cell, an attribute or a list of its parent's; whatever is put there takes the next record.
Nothing is in the way of records unless somebody has put it there.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from streamsapp.processor.operator import Push

#: The modules whose objects hold push functions: nothing else is looked into, above all no store and no user code.
_ROOMS = (
    "streamsapp.dsl.operators.",
    "streamsapp.native",
    "streamsapp.tasks.processor_context",
    "streamsapp.tasks.wiring",
)

#: A container that holds more has records.
_MOST_CHILDREN = 1000


class Splice(NamedTuple):
    """A place that holds a push function."""

    holder: Any
    #: The name of an attribute, or the index or key of an item.
    name: Any
    is_item: bool

    def put(self, push: Push, instead_of: Push) -> None:
        """Replace one push function by another."""
        if not self.is_item:
            setattr(self.holder, self.name, push)
            return
        held = self.holder[self.name]
        # A branch is a predicate and a push function.
        parts = tuple(push if part is instead_of else part for part in held) if isinstance(held, tuple) else push
        self.holder[self.name] = parts


def places_of(pushes: Iterable[Push], roots: Iterable[object]) -> dict[int, list[Splice]]:
    """Returns, by the identity of each push function, where the objects that are reached from ``roots`` hold it."""
    found: dict[int, list[Splice]] = {id(push): [] for push in pushes}
    waiting, seen = list(roots), set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        for place, held in _held_by(each):
            for part in held if isinstance(held, tuple) and place.is_item else (held,):
                if id(part) in found:
                    found[id(part)].append(place)
                if _looked_into(part):
                    waiting.append(part)
    return found


def _held_by(holder: Any) -> Iterable[tuple[Splice, Any]]:
    if isinstance(holder, MethodType):
        return _attributes(holder.__self__) if _is_ours(holder.__self__) else ()
    if isinstance(holder, FunctionType):
        filled = (cell for cell in holder.__closure__ or () if _is_filled(cell))
        return [(Splice(cell, "cell_contents", is_item=False), cell.cell_contents) for cell in filled]
    if isinstance(holder, list):
        return [(Splice(holder, index, is_item=True), held) for index, held in enumerate(holder)]
    if isinstance(holder, dict):
        return [(Splice(holder, key, is_item=True), held) for key, held in list(holder.items())]
    return _attributes(holder)


def _attributes(holder: Any) -> list[tuple[Splice, Any]]:
    slots = [name for kind in type(holder).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [*getattr(holder, "__dict__", ()), *slots]
    return [(Splice(holder, name, is_item=False), getattr(holder, name)) for name in names if hasattr(holder, name)]


def _looked_into(held: object) -> bool:
    """Containers only where they may hold push functions; those of records may be large."""
    if isinstance(held, FunctionType):
        return str(held.__module__).startswith(_ROOMS)  # generated code may have none
    if isinstance(held, MethodType):
        return _is_ours(held.__self__)
    if isinstance(held, list | dict):
        return len(held) <= _MOST_CHILDREN and any(map(_holds_functions, _values(held)))
    return _is_ours(held)


def _values(held: list[Any] | dict[Any, Any]) -> list[Any]:
    return list(held.values()) if isinstance(held, dict) else held


def _holds_functions(held: object) -> bool:
    parts = held if isinstance(held, tuple) else (held,)
    return any(isinstance(part, FunctionType | MethodType) or _is_ours(part) for part in parts)


def _is_ours(held: object) -> bool:
    return str(type(held).__module__).startswith(_ROOMS)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - asked for whether it raises
    except ValueError:
        return False
    return True
