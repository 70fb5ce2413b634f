"""Gives records the answers of a coroutine function. Records that wait for theirs, and answers that wait for an earlier
one, are in a store: a task that starts again makes only the calls that have no answer yet.

Bound on the polling thread when a task is created; pushed, and given the answers, on a processing thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from streamsapp.processor.async_calls import Answer, AsyncFunction
from streamsapp.processor.operator import NodeContext, Operator, Push
from streamsapp.record import Headers
from streamsapp.serdes.api import AnySerde
from streamsapp.state.engine.entries import kept_key
from streamsapp.state.engine.headers import loggable
from streamsapp.state.kinds.waiting_records import WaitingRecord, WaitingRecords, waiting_record


class CallOrder(Enum):
    """The records whose results go on in the order in which they came."""

    KEY = "key"
    PARTITION = "partition"
    NONE = "none"


@dataclass(frozen=True)
class CallSerdes:
    """The serdes of what is kept, as they were declared."""

    key: AnySerde
    value: AnySerde
    result: AnySerde

    def bound(self, context: NodeContext, store: str) -> CallSerdes:
        """The serdes that one task uses."""
        defaults = context.default_serdes
        return CallSerdes(
            self.key.or_default(defaults).bind(store, is_key=True),
            self.value.or_default(defaults).bind(store, is_key=False),
            self.result.or_default(defaults).bind(f"{store}-result", is_key=False),
        )


@dataclass(eq=False, slots=True)
class _Call:
    """A record that waits."""

    number: int
    key: Any
    value: Any
    waiting: WaitingRecord
    #: Its result is known, or it was given up.
    over: bool = False
    result: Any = None
    given_up: bool = False


class MapAsync(Operator):
    """Starts a call for each record, and sends the results in order."""

    def __init__(self, function: AsyncFunction, order: CallOrder, store_name: str, serdes: CallSerdes) -> None:
        self._function = function
        self._order = order
        self._store_name = store_name
        self._declared = serdes
        self._calls: dict[int, _Call] = {}
        #: Calls whose results wait for each other, the earliest first, by what they have in common.
        self._lanes: dict[Hashable, deque[_Call]] = {}
        self._restored: list[_Call] = []
        self._warned = False

    def start(self, context: NodeContext) -> None:
        self._caller = context.calls.caller(self._function)
        self._store: WaitingRecords = context.store(self._store_name)
        self._serdes = self._declared.bound(context, self._store_name)
        self._answered = context.counter("async-call-answers")
        self._failed, self._retried = context.counter("async-call-failures"), context.counter("async-call-retries")
        for number, waiting in self._store.load():
            self._restored.append(self._restore(number, waiting))

    def bind(self, context: NodeContext) -> Push:
        on_error, serialize_key, serialize = context.on_error, kept_key(self._serdes.key), kept_key(self._serdes.value)

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                key_bytes = None if key is None else serialize_key(key)
                data = None if value is None else serialize(value)
                waiting = waiting_record(key_bytes, data, timestamp, loggable(headers), context.record)
            except Exception as error:
                on_error(_not_kept(error), key, value, timestamp, headers)
                return
            call = _Call(self._store.add(waiting), key, value, waiting)
            self._line_up(call)
            self._caller.start(call.number, key, value)
            if self._is_full:
                context.calls.hold(context.node_name)

        return push

    @property
    def has_arrivals(self) -> bool:
        return self._caller.answered or bool(self._restored)

    def deliver(self, context: NodeContext) -> None:
        outer = context.record
        try:
            if self._restored:
                self._go_on(context)
            for answer in self._caller.take():
                self._take(context, answer)
        finally:
            context.record = outer
        self._retried.value = self._caller.retried
        (context.calls.hold if self._is_full else context.calls.release)(context.node_name)

    def close(self) -> None:
        self._caller.close()

    # ---- records -----------------------------------------------------------------------------------------------

    @property
    def _is_full(self) -> bool:
        """Says whether there are as many records as may be called for, and as many again."""
        return len(self._calls) >= 2 * self._function.concurrency

    def _line_up(self, call: _Call) -> None:
        self._calls[call.number] = call
        if self._order is not CallOrder.NONE:
            self._lanes.setdefault(self._lane(call), deque()).append(call)

    def _lane(self, call: _Call) -> Hashable:
        return call.waiting.key if self._order is CallOrder.KEY else None

    def _restore(self, number: int, waiting: WaitingRecord) -> _Call:
        key, value = _read(self._serdes.key, waiting.key), _read(self._serdes.value, waiting.value)
        result = _read(self._serdes.result, waiting.answer)
        call = _Call(number, key, value, waiting, over=waiting.answered, result=result)
        self._line_up(call)
        return call

    def _go_on(self, context: NodeContext) -> None:
        """Makes the calls again that have no committed answer, and sends the answers that wait for none of them."""
        restored, self._restored = self._restored, []
        for call in restored:
            if not call.over:
                self._caller.start(call.number, call.key, call.value)
            elif self._order is CallOrder.NONE:
                self._send(context, call)
        for lane in list(self._lanes):
            self._send_first(context, lane)

    # ---- answers -----------------------------------------------------------------------------------------------

    def _take(self, context: NodeContext, answer: Answer) -> None:
        call = self._calls[answer.number]
        call.over, call.result = True, answer.result
        if answer.error is not None:
            self._give_up(context, call, answer.error)
        else:
            self._answered.value += 1
        if self._order is CallOrder.NONE:
            self._send(context, call)
            return
        lane = self._lane(call)
        if self._lanes[lane][0] is call:
            self._send_first(context, lane)
        elif not call.given_up:
            self._keep(context, call)

    def _give_up(self, context: NodeContext, call: _Call, error: Exception) -> None:
        """The handler decides at once, and not when it is the record's turn."""
        self._failed.value += 1
        waiting = call.waiting
        context.record = waiting.record
        context.on_error(error, call.key, call.value, waiting.timestamp, waiting.headers or None)
        call.given_up = True
        self._forget(call)

    def _send_first(self, context: NodeContext, lane: Hashable) -> None:
        """Sends the results of a lane that wait for no earlier one."""
        calls = self._lanes[lane]
        while calls and calls[0].over:
            self._send(context, calls.popleft())
        if not calls:
            del self._lanes[lane]

    def _send(self, context: NodeContext, call: _Call) -> None:
        if call.given_up:
            return
        waiting = call.waiting
        self._forget(call)
        context.record = waiting.record
        context.forward(call.key, call.result, waiting.timestamp, waiting.headers or None)

    def _forget(self, call: _Call) -> None:
        del self._calls[call.number]
        self._store.remove(call.number, call.waiting.timestamp)

    def _keep(self, context: NodeContext, call: _Call) -> None:
        """Keeps an answer that waits for an earlier one, so that its call is not made again."""
        try:
            answer = None if call.result is None else kept_key(self._serdes.result)(call.result)
        except Exception as error:
            if not self._warned:
                self._warned = True
                context.warn(
                    f"answers that wait for an earlier one are in memory only, and after a crash their calls are made "
                    f"again: {error}; give map_async a result_serde that writes them"
                )
            return
        self._store.answer(call.number, call.waiting.with_answer(answer))


def _read(serde: AnySerde, data: bytes | None) -> Any:
    return None if data is None else serde.deserialize(data)


def _not_kept(error: Exception) -> Exception:
    return ValueError(
        f"the record cannot be kept until it is answered: {error}; give map_async a key_serde and a value_serde that "
        "write what it has"
    ).with_traceback(error.__traceback__)
