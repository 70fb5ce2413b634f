"""Operators without state: each turns one record into none, one or several.

Bound on the polling thread when a task is created; pushed on a processing thread. User code runs inside ``try`` and
records are forwarded outside of it, so that an error is handled at the node where it arose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from streamsapp import native
from streamsapp.errors import place_of_error
from streamsapp.processor.operator import NodeContext, Operator, Push, handing_on, nowhere
from streamsapp.record import Headers


class StepKind(IntEnum):
    """The ways in which a step in C uses its function, in the order of ``native/push/step.c``. The ones that end in
    ``KEYED`` give it key and value, as filters, ``MAP`` and ``SELECT_KEY`` do, others the value."""

    FILTER = 0
    FILTER_NOT = 1
    MAP = 2
    SELECT_KEY = 3
    MAP_VALUES = 4
    MAP_VALUES_KEYED = 5
    FLAT_MAP_VALUES = 6
    FLAT_MAP_VALUES_KEYED = 7
    DROP_NULL_KEYS = 8


def _step(
    kind: StepKind,
    function: Callable[..., Any] | None,
    context: NodeContext,
    adapt: Callable[[Any], Any] | None = None,
    operation: str | None = None,
) -> Push:
    """Returns the step in C. Errors of the ``operation`` are explained."""
    on_error = context.on_error if operation is None else _explaining(context.on_error, operation)
    return native.Step(kind=kind, function=function, adapt=adapt, forward=context.forward, on_error=on_error)


class PassThrough(Operator):
    """Hands records on, at a place where streams merge or a branch begins."""

    hands_on_every_record = True

    def bind(self, context: NodeContext) -> Push:
        return context.forward


class DropNullKeys(Operator):
    """Drops records without a key in front of a repartition topic: they belong to no group."""

    hands_on_every_record = True

    def bind(self, context: NodeContext) -> Push:
        return _step(StepKind.DROP_NULL_KEYS, None, context)


@dataclass
class Filter(Operator):
    """Keeps the records for which the predicate holds, or those for which it does not."""

    predicate: Callable[[Any, Any], Any]
    negate: bool

    def bind(self, context: NodeContext) -> Push:
        return _step(StepKind.FILTER_NOT if self.negate else StepKind.FILTER, self.predicate, context)


@dataclass
class Map(Operator):
    """Gives records another key and value: the mapper returns a pair."""

    hands_on_every_record = True

    mapper: Callable[[Any, Any], tuple[Any, Any]]

    def bind(self, context: NodeContext) -> Push:
        return _step(StepKind.MAP, self.mapper, context, _paired, "map")


@dataclass
class SelectKey(Operator):
    """Gives records another key."""

    hands_on_every_record = True

    selector: Callable[[Any, Any], Any]

    def bind(self, context: NodeContext) -> Push:
        return _step(StepKind.SELECT_KEY, self.selector, context)


@dataclass
class MapValues(Operator):
    """Gives records another value."""

    hands_on_every_record = True

    mapper: Callable[..., Any]
    with_key: bool

    def bind(self, context: NodeContext) -> Push:
        kind = StepKind.MAP_VALUES_KEYED if self.with_key else StepKind.MAP_VALUES
        return _step(kind, self.mapper, context)


@dataclass
class FlatMap(Operator):
    """Turns a record into any number of records: the mapper returns an iterable of pairs."""

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def bind(self, context: NodeContext) -> Push:
        mapper, forward, on_error = self.mapper, context.forward, context.on_error

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                # Taken in whole, so that a generator that raises half way has sent nothing.
                pairs = [
                    (new_key, new_value)
                    for pair in mapper(key, value)
                    for new_key, new_value in (pair if pair.__class__ is tuple else pair_of(pair),)
                ]
            except Exception as error:
                on_error(no_pair(error, "flat_map"), key, value, timestamp, headers)
                return
            for new_key, new_value in pairs:
                forward(new_key, new_value, timestamp, headers)

        return push


def pair_of(returned: Any) -> Any:
    """Returns what a user's function returned as a pair; raises ``TypeError`` for a result that has no order of two
    parts, or whose parts cannot be meant: two characters, two bytes, two keys."""
    if isinstance(returned, (str, bytes, bytearray, dict, set, frozenset)):
        raise TypeError(f"it returned {returned!r:.80}")
    return returned


def no_pair(error: Exception, operation: str) -> Exception:
    """Explains an error of unpacking if the mapper returned something that is no pair; errors that the mapper raised
    stay as they are."""
    if place_of_error(error) or not isinstance(error, (TypeError, ValueError)):
        return error
    expected = "pairs (key, value), in a list for example" if operation == "flat_map" else "a pair (key, value)"
    return TypeError(f"{operation}: the function must return {expected} ({error})").with_traceback(error.__traceback__)


def _paired(returned: Any) -> tuple[Any, Any]:
    """Returns what a mapper returned as a pair."""
    new_key, new_value = pair_of(returned)
    return new_key, new_value


def _explaining(on_error: Callable[..., None], operation: str) -> Callable[..., None]:
    def told(error: Exception, *record: Any) -> None:
        on_error(no_pair(error, operation), *record)

    return told


def _listed(values: Any) -> list[Any]:
    """Returns the values that a mapper returned, as a list."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(
            f"flat_map_values: the function returned {type(values).__name__}; it must return a list of values, or any "
            "other iterable (map_values takes a single value)"
        )
    return list(values)


@dataclass
class FlatMapValues(Operator):
    """Turns a record into any number of records of the same key: the mapper returns an iterable of values."""

    mapper: Callable[..., Iterable[Any]]
    with_key: bool

    def bind(self, context: NodeContext) -> Push:
        kind = StepKind.FLAT_MAP_VALUES_KEYED if self.with_key else StepKind.FLAT_MAP_VALUES
        return _step(kind, self.mapper, context, _listed)


@dataclass
class Peek(Operator):
    """Shows records to a user's function and hands them on."""

    hands_on_every_record = True

    action: Callable[[Any, Any], object]

    def bind(self, context: NodeContext) -> Push:
        action, forward, on_error = self.action, context.forward, context.on_error

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                action(key, value)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            forward(key, value, timestamp, headers)

        return push


@dataclass
class ForEach(Operator):
    """Gives records to a user's function; nothing comes after it."""

    action: Callable[[Any, Any], object]

    def bind(self, context: NodeContext) -> Push:
        action, on_error = self.action, context.on_error

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                action(key, value)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)

        return push


@dataclass
class Branch(Operator):
    """Hands a record to the first branch whose predicate holds, else to the default branch if there is one."""

    predicates: list[Callable[[Any, Any], Any]]
    children: list[str]

    def bind(self, context: NodeContext) -> Push:
        branches = [(test, context.child(name)) for test, name in zip(self.predicates, self.children, strict=False)]
        has_default = len(self.children) > len(self.predicates)
        default = context.child(self.children[-1]) if has_default else None
        on_error = context.on_error

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            chosen = default
            try:
                for test, child in branches:
                    if test(key, value):
                        chosen = child
                        break
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            if chosen is not None:
                chosen(key, value, timestamp, headers)

        return push


class ToStream(Operator):
    """Turns the changes of a table into records of their new values."""

    hands_on_every_record = True

    def bind(self, context: NodeContext) -> Push:
        forward = context.forward
        if forward is nowhere:
            return nowhere

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            forward(key, change[0], timestamp, headers)

        return handing_on(push, forward)
