"""The context that the code of one node is bound to: its children, stores, error handling, and the public processor
context.

Made on the polling thread with the task; used on the processing thread that holds the task, which makes the contexts of
a second wiring.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import java_names
from streamsapp.processor.api import Cancellable, Duration, ProcessorContext, PunctuationType, duration_ms, instant_ms
from streamsapp.processor.async_calls import TaskCalls
from streamsapp.processor.operator import LateAnswer, Push, Reason, Tally, nowhere
from streamsapp.processor.timestamps import whole_number
from streamsapp.record import Headers, InputRecord, Record, RecordMetadata, TaskId
from streamsapp.serdes.api import DefaultSerdes
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.engine.headers import heading
from streamsapp.state.kinds.by_name import of_kind
from streamsapp.state.kinds.facade import headers_format_of
from streamsapp.tasks.failures import FailureHandling
from streamsapp.tasks.punctuation import Schedule
from streamsapp.tasks.task_context import TaskContext

log = logging.getLogger(__name__)


def fan_out(pushes: list[Push]) -> Push:
    """One push function for several children, in their order."""
    pushes = [push for push in pushes if push is not nowhere]
    if not pushes:
        return nowhere
    if len(pushes) == 1:
        return pushes[0]
    if len(pushes) == 2:
        first, second = pushes

        def push_both(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            first(key, value, timestamp, headers)
            second(key, value, timestamp, headers)

        return push_both

    def push_all(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        for push in pushes:
            push(key, value, timestamp, headers)

    return push_all


@dataclass(frozen=True)
class ChildPushes:
    """The push functions of the nodes below a node, and the names of those that are reached by their names alone."""

    by_name: Mapping[str, Push]
    aside: frozenset[str] = frozenset()

    def together(self) -> Push:
        """Pushes to all that are not aside."""
        return fan_out([push for name, push in self.by_name.items() if name not in self.aside])


class NodeBinding:
    """The surroundings of one node: the :class:`~streamsapp.processor.operator.NodeContext` of operators and the
    :class:`~streamsapp.processor.api.ProcessorContext` of user processors."""

    def __init__(
        self,
        name: str,
        task: TaskContext,
        children: ChildPushes,
        stores: Mapping[str, Any],
        failures: FailureHandling,
        default_serdes: DefaultSerdes,
        *,
        record_is_read: bool = False,
    ) -> None:
        self.node_name = name
        #: True if this node or one below asks for the record in process.
        self.record_is_read = record_is_read
        self.forward = children.together()
        self.task = task
        self.default_serdes = default_serdes
        #: The functions by which foreign-key joins go on from an answer that came too late: those of the wiring.
        self.late_answers: dict[str, LateAnswer] | None = None
        self._children = children
        self._stores = stores
        self._failures = failures
        self._user_context: UserContext | None = None

    def over(self, children: ChildPushes, late_answers: dict[str, LateAnswer] | None) -> NodeBinding:
        """The same node in another wiring, over the children that it has there."""
        other = copy(self)
        other.forward, other._children, other.late_answers = children.together(), children, late_answers
        return other

    def lead_on(self) -> None:
        """Has user code forward to the children in this wiring from now on."""
        if self._user_context is not None:
            self._user_context._node, self._user_context._forward = self, self.forward

    def child(self, name: str) -> Push:
        """The named child; ``TopologyError`` names the children there are."""
        try:
            return self._children.by_name[name]
        except KeyError:
            known = ", ".join(self._children.by_name) or "none"
            raise TopologyError(
                f"node {self.node_name} has no child {name!r} to forward to; its children: {known}"
            ) from None

    def store(self, name: str) -> Any:
        """A connected store; ``TopologyError`` explains how to connect one."""
        try:
            return self._stores[name]
        except KeyError:
            raise TopologyError(
                f"processor {self.node_name} has no access to the store {name!r}: connect it, e.g. "
                f"process(supplier, {name!r}) or connect_processor_and_state_stores({self.node_name!r}, {name!r})"
            ) from None

    def heading(self, push: Push) -> Push:
        """Gives stores that keep headers those of each record; a node without such stores is left as it is."""
        formats = [form for store in self._stores.values() if (form := headers_format_of(store)) is not None]
        return heading(formats, push, self.on_error) if formats else push

    def timed(self, push: Push) -> Push:
        """Sets the task's time before each push."""
        task = self.task

        def timed_push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            task.timestamp = timestamp
            push(key, value, timestamp, headers)

        return timed_push

    def of_row(self, compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any, int], Any]:
        """Takes the record away and sets the task's time to the row's, if there is one, for the length of the call."""
        task = self.task

        def compute_of_row(key: Any, value: Any, timestamp: int) -> Any:
            message, now = task.message, task.timestamp
            task.message, task.timestamp = None, timestamp if timestamp >= 0 else now
            try:
                return compute(key, value)
            finally:
                task.message, task.timestamp = message, now

        return compute_of_row

    def on_error(self, error: Exception, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        """User code raised: the processing exception handler decides."""
        self._failures.processing(self.node_name, error, timestamp, headers)

    def warn(self, text: str) -> None:
        """Log what is probably a slip of the user's, with the node and its place."""
        log.warning("node %s: %s", self._failures.named(self.node_name), text)

    def dropped(self, reason: Reason) -> None:
        """Count and log a record that is skipped by rule."""
        self._failures.log_dropped(self.node_name, reason)

    def outdated(self) -> None:
        """Count a record that a newer one has replaced."""
        self.task.record_errors.dropped += 1

    @property
    def record(self) -> InputRecord | None:
        """The record in process."""
        return self.task.message

    @record.setter
    def record(self, record: InputRecord | None) -> None:
        self.task.message = record

    def counter(self, metric: str) -> Tally:
        """A number of this node for ``/metrics``."""
        return self.task.counter(self.node_name, metric)

    @property
    def processor_metadata(self) -> dict[str, int]:
        """Numbers that are committed with the offsets and are here again wherever the task goes on."""
        return self.task.processor_metadata.numbers

    def keep_stream_time(self, observed: Callable[[], int]) -> int | None:
        """Keep this node's own stream time with the committed offsets."""
        return self.task.processor_metadata.keep_stream_time(self.node_name, observed)

    @property
    def emit_interval_ms(self) -> int:
        """The interval at which results that wait for a window to close are looked for, in wall-clock milliseconds."""
        return self.task.execution.emit_interval_ms

    @property
    def without_caches(self) -> bool:
        """Says whether old values are those of Kafka Streams without record caches."""
        return self.task.execution.without_caches

    @property
    def combines(self) -> bool:
        """Says whether changes of a grouped table are combined until the commit."""
        return self.task.execution.combines

    @property
    def children(self) -> Collection[str]:
        """The names of the nodes below."""
        return self._children.by_name.keys()

    @property
    def calls(self) -> TaskCalls:
        """The part of the task in calls of coroutine functions."""
        return self.task.execution.calls

    @property
    def processor_context(self) -> ProcessorContext:
        """The same node as user code sees it: one object, whatever wiring is in use."""
        return self.user_context

    @property
    def user_context(self) -> UserContext:
        """The same, as wrapped operators use it."""
        if self._user_context is None:
            self._user_context = UserContext(self)
        return self._user_context


@java_names("ProcessorContext")
class UserContext:
    """The binding of a user's processor."""

    def __init__(self, node: NodeBinding) -> None:
        self._node = node
        self._task = node.task
        self._forward = node.forward

    @property
    def application_id(self) -> str:
        return self._task.application_id

    @property
    def task_id(self) -> TaskId:
        return self._task.task_id

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return self._task.metadata()

    @property
    def current_stream_time_ms(self) -> int:
        return self._task.stream_time

    @property
    def current_system_time_ms(self) -> int:
        return self._task.clock.now_ms()

    def forward(self, record: Record, child: str | None = None) -> None:
        push = self._forward if child is None else self._node.child(child)
        try:
            key, value, timestamp, headers = record.key, record.value, record.timestamp, record.headers
        except AttributeError:
            given = type(record).__name__
            raise TypeError(f"forward takes a Record, got {given}; write Record(key, value, timestamp)") from None
        if timestamp.__class__ is not int:
            timestamp = whole_number(timestamp)
        if not 0 <= timestamp <= MAX_TIMESTAMP:
            kind = "negative timestamp" if timestamp < 0 else "timestamp, later than any can be,"
            raise ValueError(f"a record forwarded by {self._node.node_name} has the {kind} {timestamp}")
        outer = self._task.timestamp
        # A copy: user code may go on with its own list.
        push(key, value, timestamp, list(headers) if headers else None)
        self._task.timestamp = outer

    def push(self, child: str | None, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        """Hands on what an operator sends, in the wiring in use."""
        push = self._forward if child is None else self._node.child(child)
        push(key, value, timestamp, headers)

    def schedule(
        self,
        interval: Duration,
        type: PunctuationType,
        callback: Callable[[int], None],
        start: datetime | int | None = None,
    ) -> Cancellable:
        period = duration_ms(interval)
        if not isinstance(type, PunctuationType) or not callable(callback):
            raise TopologyError(
                f"processor {self._node.node_name}: schedule takes (interval, PunctuationType, function of a timestamp)"
            )
        if period < 1:
            raise TopologyError(f"processor {self._node.node_name} schedules every {period} ms; the least is 1 ms")
        by_stream_time = type is PunctuationType.STREAM_TIME
        now = self._task.stream_time if by_stream_time else self._task.clock.now_ms()
        first = (0 if by_stream_time else now + period) if start is None else instant_ms(start)
        schedule = Schedule(self._node.node_name, first, period, callback)
        if start is not None and first < now:
            schedule.advance(now)
        queue = self._task.stream_time_punctuation if by_stream_time else self._task.wall_clock_punctuation
        queue.add(schedule)
        return schedule

    def commit(self) -> None:
        self._task.commit_requested = True

    def get_state_store(self, name: str, kind: Any = None) -> Any:
        return of_kind(self._node.store(name), name, kind)
