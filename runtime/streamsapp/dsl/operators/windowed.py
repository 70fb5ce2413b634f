"""The part that the aggregations by time window, sliding window and session have in common.

Made while a program is built, on the user's thread; bound on the polling thread when a task is created, and pushed on a
processing thread.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from streamsapp.dsl.operators.aggregate import StoredTableOperator
from streamsapp.dsl.operators.emit_final import EmitFinal, TimedStore, later
from streamsapp.dsl.operators.forward_updates import Update
from streamsapp.dsl.operators.late import LateRecords
from streamsapp.dsl.operators.stream_time import ObservedTime, StreamTime
from streamsapp.dsl.windows import EmitStrategy
from streamsapp.processor.operator import NodeContext, Push, Reason, Waits
from streamsapp.serdes.windowed import MAX_TIMESTAMP, windowed

W = TypeVar("W")

NULL_KEY = Reason("null key", "give records a key, or filter out those without")
EXPIRED_WINDOW = Reason("its window has closed", "a longer grace of the windows lets later records in")


class Aggregation(NamedTuple):
    """The user's functions: ``initializer()``, ``fold(key, value, aggregate)``, for some with the window as a fourth
    argument, and for sessions that come together ``merger(key, aggregate, other)``."""

    initializer: Callable[[], Any]
    fold: Callable[..., Any]
    merger: Callable[[Any, Any, Any], Any] | None = None
    takes_window: bool = False


T = TypeVar("T", bound=tuple[Any, ...])


class WindowInProcess:
    """Gives the user's function the window that a record is folded into. Operators without such a function have
    nothing of it."""

    def __init__(self, function: Callable[..., Any], end_of: Callable[[Any], int]) -> None:
        """``end_of`` returns the end of what :meth:`each` is given, which begins with the window's start."""
        self._function = function
        self._end_of = end_of
        self._bounds = 0, 0

    def fold(self, key: Any, value: Any, aggregate: Any) -> Any:
        """Folds into the window that :meth:`each` gave last."""
        return self._function(key, value, aggregate, windowed(key, *self._bounds))

    def each(self, find: Callable[..., Iterable[T]]) -> Callable[..., Iterable[T]]:
        """Wraps the function that finds the windows of a record; that is called at once, and not with the first."""

        def found(*arguments: Any) -> Iterable[T]:
            return self._one_by_one(find(*arguments))

        return found

    def _one_by_one(self, found: Iterable[T]) -> Iterator[T]:
        for each in found:
            self._bounds = each[0], self._end_of(each)
            yield each


def _add_one(key: Any, value: Any, count: int) -> int:
    return count + 1


def _total(key: Any, one: int, other: int) -> int:
    return one + other


#: Counts; operators that know it count in place.
COUNTING = Aggregation(lambda: 0, _add_one, _total)


class WindowedAggregate(StoredTableOperator, Generic[W]):
    """Folds the values of a key and window into an aggregate that starts from the initializer's."""

    #: Says whether a record without value changes windows, and closes earlier ones.
    takes_null_values = True
    #: The time by which a window may start after the latest record.
    _starts_ahead_ms = 0

    def __init__(
        self,
        windows: W,
        emit: EmitStrategy,
        aggregation: Aggregation,
        store_name: str,
        emit_at_commit: bool,
        send_old_values: bool,
    ) -> None:
        super().__init__(store_name, emit_at_commit, send_old_values)
        self._windows = windows
        self._emit = emit
        self._aggregation = aggregation
        #: Sends the results, if they are sent on window close.
        self._final: EmitFinal | None = None

    def start(self, context: NodeContext) -> None:
        super().start(context)
        store = context.store(self._store_name)
        if self._emit is EmitStrategy.WINDOW_CLOSE:
            self._final = EmitFinal(context, store, *self._closes_after(), self._end_of())
        self._time = time = self._made_time(context, store)
        time.latest = self._first_time(context, store, lambda: time.latest)

    @property
    def _holds(self) -> bool:
        return super()._holds and self._emit is not EmitStrategy.WINDOW_CLOSE

    def bind_to_store(self, context: NodeContext, store: Any, update: Update) -> Push:
        if not self.sends_late:
            return self._bind(context, store, update, partial(context.dropped, EXPIRED_WINDOW))
        late = LateRecords(context, EXPIRED_WINDOW)
        return late.behind(self._bind(context, store, update, late.miss))

    def _bind(self, context: NodeContext, store: Any, update: Update, expired: Callable[[], object]) -> Push:
        if self._final is None:
            return self._add(context, store, update, expired)
        add = self._add(context, store, later, expired)
        return self._final.before(context.forward, add, takes_null=self.takes_null_values)

    def waits(self, above: Waits) -> Waits:
        wait_ms = sum(self._closes_after())
        final = self._emit is EmitStrategy.WINDOW_CLOSE
        return above if wait_ms >= MAX_TIMESTAMP else above.until_closed(wait_ms, holds=final)

    def advance(self, context: NodeContext, now: int) -> None:
        if self._final is not None:
            self._final.close(context.forward, now)
        self._time.latest = max(self._time.latest, now)

    def _made_time(self, context: NodeContext, store: Any) -> StreamTime:
        """Returns what holds the highest timestamp that came here."""
        return ObservedTime()

    def _first_time(self, context: NodeContext, store: TimedStore, observed: Callable[[], int]) -> int:
        """Returns the stream time to begin with, and keeps the time that ``observed`` returns from now on.

        It goes with the offsets: a record that is read again finds the windows open that were open for it at first, and
        so does a record that comes late after a restart. Kafka Streams begins at -1, and opens windows again. If none
        was kept, by another program for one, it is that of the windows in the store. If the store is ahead, as after a
        crash at least once, windows that it has given up are closed: they would begin anew.
        """
        kept = context.keep_stream_time(observed)
        if kept is None:
            return store.stream_time - self._starts_ahead_ms
        given_up = store.expired_at(store.stream_time)
        return max(kept, given_up - 1 + sum(self._closes_after())) if given_up > 0 else kept

    @abstractmethod
    def _add(self, context: NodeContext, store: Any, update: Update, expired: Callable[[], object]) -> Push:
        """The function that adds a record to its windows, and calls ``update`` for each of them, and ``expired`` for
        each that has closed."""

    def _end_of(self) -> Callable[[int], int] | None:
        """The function that gives the end of a window by its start; ``None`` if the store knows it."""
        return None

    @abstractmethod
    def _closes_after(self) -> tuple[int, int]:
        """The size and the grace after which a window is closed, counted from its time in the store, in ms."""
