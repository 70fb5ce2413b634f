"""Turns a topology's nodes into code: every node is bound to its task once and yields a push function.

A push function takes ``(key, value, timestamp, headers)`` as four plain arguments, so that a record on its way
through a sub-topology allocates nothing: a chain of nodes is a chain of closures. ``headers`` is ``None`` where a
record has none. The DSL's nodes are :class:`Operator` s; a user's :class:`~streamsapp.processor.api.Processor` is
adapted by the task that binds it.

Started and bound on the polling thread when a task is created, and bound once more on a processing thread when a task
is looked at; pushed on a processing thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from streamsapp.processor.api import ProcessorContext
from streamsapp.processor.async_calls import TaskCalls
from streamsapp.record import Headers, InputRecord
from streamsapp.serdes.api import AnySerde, DefaultSerdes

#: ``(key, value, timestamp_ms, headers)``; pushes a record into a node and everything below it.
Push: TypeAlias = Callable[[Any, Any, int, Headers | None], None]


def nowhere(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
    """Takes the records of a node without children. An operator that is bound to it may leave out everything that would
    be made for no reader."""


class PlainSink(NamedTuple):
    """A sink that leaves the partition to the key: the topic it writes to, and how."""

    topic: str
    #: Takes a record as ``OutputRecord`` has it.
    emit: Callable[[Any], None]
    key: AnySerde
    value: AnySerde


#: A push function has it if it does nothing but hand on, or write to a topic (``native.Sink``), or knows old values.
_HANDS_ON, _SINK, _KNOWS_OLD = "hands_on", "plain_sink", "knows_old"


def handing_on(push: Push, to: Push) -> Push:
    """Notes that a push function does nothing but hand the new values of changes on ``to`` another one."""
    vars(push)[_HANDS_ON] = to
    return push


def sink_of(push: Push) -> PlainSink | None:
    """Returns the sink that a push function is, if it is known to be no more."""
    return getattr(push, _SINK, None)


#: ``(key, key_bytes)``: says of a key whether the old value of its next change may be anything.
OldIsKnown: TypeAlias = Callable[[Any, bytes], bool]


def knowing_old(push: Push, knows: OldIsKnown) -> Push:
    """Notes that a push function leaves out the old value of a change if ``knows`` says so of its key."""
    vars(push)[_KNOWS_OLD] = knows
    return push


def old_known_by(push: Push) -> OldIsKnown | None:
    """Returns the function by which a push function knows old values, if it does."""
    return getattr(push, _KNOWS_OLD, None)


def handed_on_to(push: Push) -> Push | None:
    """Returns the function that a push function hands changes on to, if it is known to do no more."""
    return getattr(push, _HANDS_ON, None)


class Tally:
    """A number of a node that only grows, shown by ``/metrics``."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


#: ``(key, row, timestamp, headers)``: asks for the partner of a left row once more, and says whether there can be any.
LateAnswer: TypeAlias = Callable[[Any, Any, int, Headers | None], bool]


class Reason(NamedTuple):
    """The rule by which a record is skipped, and what to do if that is not wanted."""

    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}"


class NodeContext(Protocol):
    """The context that an operator is given when it is bound to a task."""

    @property
    def node_name(self) -> str: ...

    @property
    def forward(self) -> Push:
        """Pushes to every child, in the order in which they were added."""
        ...

    def child(self, name: str) -> Push:
        """Pushes to the named child only."""
        ...

    def store(self, name: str) -> Any:
        """The task's instance of a store that is connected to this node."""
        ...

    def timed(self, push: Push) -> Push:
        """Makes a push to user code that writes to stores: entries get the timestamp of the record pushed."""
        ...

    def of_row(self, compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any, int], Any]:
        """Makes a call of user code for a row that is looked up, which takes the row's time, too. The record in process
        is that of another table, so there is none meanwhile (Kafka Streams' ``KTableTransformValues``)."""
        ...

    def on_error(self, error: Exception, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        """Handles an exception of user code: raises it (the handler says fail) or returns (the record is dropped at
        this node)."""
        ...

    def warn(self, text: str) -> None:
        """Logs something that is probably a slip of the user's, with the node and its place; the caller sees to it that
        this happens once."""
        ...

    def dropped(self, reason: Reason) -> None:
        """Counts a record that is skipped by rule (null key, expired window), and logs it with its offset."""
        ...

    def outdated(self) -> None:
        """Counts a record that a newer one has replaced, which is a part of normal work: it is not logged."""
        ...

    @property
    def record(self) -> InputRecord | None:
        """The record in process; ``None`` in a punctuator. Set while a result of an earlier record is sent."""
        ...

    @record.setter
    def record(self, record: InputRecord | None) -> None: ...

    @property
    def record_is_read(self) -> bool:
        """Says whether a node below may ask for the record in process. A node that does so itself sets it when it is
        bound, for those above: results that wait for the commit are sent with their records only then."""
        ...

    @record_is_read.setter
    def record_is_read(self, read: bool) -> None: ...

    def counter(self, metric: str) -> Tally:
        """Returns a number of this node for ``/metrics``, named in Kafka Streams' terms without ``-total``."""
        ...

    @property
    def processor_metadata(self) -> dict[str, int]:
        """Numbers that are committed with the offsets, and are restored wherever the task goes on."""
        ...

    def keep_stream_time(self, observed: Callable[[], int]) -> int | None:
        """Commits with the offsets the latest time that this node has seen, which ``observed`` returns, and returns the
        one that was committed last; ``None`` if it is not known."""
        ...

    @property
    def late_answers(self) -> dict[str, LateAnswer] | None:
        """The functions of this wiring by which foreign-key joins go on from an answer that came too late, by topic.
        ``None`` in a test driver, which writes what Kafka Streams' writes, record for record."""
        ...

    @property
    def without_caches(self) -> bool:
        """Says whether the old value of a grouped row that was not there is its initial aggregate, as in Kafka Streams
        without record caches, for comparisons with that."""
        ...

    @property
    def combines(self) -> bool:
        """Says whether changes of a grouped table are combined until the commit: not in a test driver, nor over
        history, where commits have no meaning."""
        ...

    @property
    def emit_interval_ms(self) -> int:
        """The interval in milliseconds of wall-clock time at which results that wait for a window to close are looked
        for."""
        ...

    @property
    def default_serdes(self) -> DefaultSerdes:
        """The configured serdes, for keys and values that the program declares none for."""
        ...

    @property
    def calls(self) -> TaskCalls:
        """The part of the task in calls of coroutine functions."""
        ...

    @property
    def processor_context(self) -> ProcessorContext:
        """The public context, with schedule, commit, metadata and time."""
        ...


class Waits(NamedTuple):
    """The longest time in milliseconds of stream time for which operators have a record wait."""

    #: Until its last result leaves them.
    held: int = 0
    #: Until no time that passes can make anything of it.
    closing: int = 0

    def merged(self, other: Waits) -> Waits:
        """Returns what holds for both."""
        return Waits(max(self.held, other.held), max(self.closing, other.closing))

    def until_closed(self, wait_ms: int, *, holds: bool) -> Waits:
        """Returns what holds below an operator that has records wait for so long; ``holds`` says whether their results
        wait with them."""
        closed = self.held + wait_ms
        return Waits(closed if holds else self.held, max(self.closing, closed))


class Operator(ABC):
    """A node of the DSL. One instance per task, made by the node's supplier."""

    #: Says whether each record leads to one behind the node, except records that rules leave out, as without a key.
    hands_on_every_record: ClassVar[bool] = False

    @property
    def kept_in(self) -> str | None:
        """The name of the store in which it keeps a table, if it keeps one."""
        return None

    def expire(self, context: NodeContext) -> None:  # noqa: B027 - most operators keep no table
        """Deletes the row of its table that is over first, and sends the deletion into the wiring that ``context``
        belongs to. Called on the processing thread, between two records; there is such a row."""

    def start(self, context: NodeContext) -> None:  # noqa: B027 - most operators keep nothing
        """Makes what lasts as long as the task does, and begins user code. Called once, before the first ``bind``."""

    @abstractmethod
    def bind(self, context: NodeContext) -> Push:
        """Returns a push function of this node for a wiring of the task, which pushes to the next nodes of the same
        wiring. A task that is looked at has two of them, and changes between two batches: so whatever a record leaves
        behind is the operator's or a store's, never the function's.

        User code is called inside ``try``, and its exceptions go to ``context.on_error``; ``context.forward`` is called
        outside, so that an error is handled where it arose."""

    def emit_held(self, context: NodeContext, limit: int) -> int:
        """Emits at most ``limit`` results that were held back for the commit, into the wiring that ``context`` belongs
        to; returns how many are still held.

        Called on the processing thread, in slices, before the task's epoch is frozen for a commit; at last with
        ``sys.maxsize``, until nothing is held, and no record comes between that and the commit.
        """
        return 0

    def waits(self, above: Waits) -> Waits:
        """Returns for how long records wait at most once they are through this node, if they waited ``above`` it."""
        return above

    def advance(self, context: NodeContext, now: int) -> None:  # noqa: B027 - most operators have no time
        """Moves the node's own stream time on to ``now`` without a record, and sends what this closes. Called on the
        processing thread, between two records, when a time marker says that inputs are silent."""

    @property
    def has_arrivals(self) -> bool:
        """Says whether ``deliver`` has something to do: answers of calls have come."""
        return False

    def deliver(self, context: NodeContext) -> None:  # noqa: B027 - most operators wait for nothing
        """Takes the answers that have come, and sends their results into the wiring that ``context`` belongs to. Called
        on the processing thread, between two records, and not while a commit waits for the task."""

    @property
    def held_bytes(self) -> int:
        """An estimate of the memory of results that wait for the commit here and in no store, in bytes. Any thread."""
        return 0

    def close(self) -> None:  # noqa: B027 - most operators own nothing
        """Called once after the last record."""


#: Makes one operator for each task.
OperatorSupplier: TypeAlias = Callable[[], Operator]
