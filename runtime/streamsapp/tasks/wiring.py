"""Binds a sub-topology to one task: every node becomes a push function, children before parents.

Called on the polling thread when a task is created; the functions run on processing threads. A task under observation
has a second wiring, with a probe in front of each node, which the processing thread makes between two batches. It is
made of the same operators, processors, stores and sinks, so that records may take either way at any time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from streamsapp import native
from streamsapp.errors import ProcessingError, StreamsError, TopologyError, UserInputError, place_of_error
from streamsapp.outgoing import OutputRecord
from streamsapp.plain_text import plain_text
from streamsapp.processor.api import Processor, ProcessorWrapper, TopicNameExtractor
from streamsapp.processor.operator import LateAnswer, Operator, PlainSink, Push, Reason, nowhere
from streamsapp.processor.partitions import chosen_partitions, takes_headers
from streamsapp.record import Headers, Record, check_headers
from streamsapp.serdes.api import DefaultSerdes, or_configured
from streamsapp.tasks.failures import FailureHandling
from streamsapp.tasks.processor_context import ChildPushes, NodeBinding
from streamsapp.tasks.remedies import UnwrittenPart
from streamsapp.tasks.sink_bytes import giving_bytes
from streamsapp.tasks.task_context import TaskContext
from streamsapp.tasks.tracing import Tracing
from streamsapp.tasks.wrapping import OperatorProcessor, wrapped
from streamsapp.topology.name_rules import topic_name
from streamsapp.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode, SubTopology

NO_PARTITION = Reason(
    "the partitioner chose no partition", "return a partition, or None for the one that the key's bytes choose"
)


@dataclass(frozen=True)
class Wires:
    """The surroundings that a task's nodes are connected to."""

    context: TaskContext
    failures: FailureHandling
    stores: Mapping[str, Any]
    emit: Callable[[OutputRecord], None]
    #: Undecorated to full topic name.
    topic_name: Callable[[str], str]
    #: Number of partitions of a topic, for custom partitioners.
    partition_count: Callable[[str], int]
    default_serdes: DefaultSerdes
    #: ``None``: no traces are wanted.
    tracing: Tracing | None = None
    #: Wraps every processor (KIP-1112), if there is one.
    wrapper: ProcessorWrapper | None = None


class Wiring:
    """One way of records through the nodes of a task."""

    def __init__(self, late_answers: dict[str, LateAnswer] | None = None, aside: frozenset[str] = frozenset()) -> None:
        self.late_answers = late_answers
        #: The nodes that their parents reach by name alone.
        self.aside = aside
        #: By node: its push function, and what it is bound to if it has nodes below it.
        self.pushes: dict[str, Push] = {}
        self.bindings: dict[str, NodeBinding] = {}

    def below(self, node: SourceNode | ProcessorNode) -> ChildPushes:
        """The push functions of a node's children."""
        return ChildPushes({name: self.pushes[name] for name in node.children}, self.aside)


@dataclass
class WiredTopology:
    """The wiring of a task, and the user code behind it."""

    nodes: tuple[Node, ...] = ()
    plain: Wiring = field(default_factory=Wiring)
    tracing: Tracing | None = None
    #: By node, parents before children, as the processors.
    operators: dict[str, Operator] = field(default_factory=dict)
    processors: dict[str, Processor] = field(default_factory=dict)
    #: The surroundings of operators inside of a wrapper, which are the same in every wiring.
    wrapped: dict[str, NodeBinding] = field(default_factory=dict)
    #: The nodes that may ask for the record in process, and those above them.
    record_readers: set[str] = field(default_factory=set)
    #: The wiring that records, results and what user code forwards take.
    in_use: Wiring = field(init=False)

    def __post_init__(self) -> None:
        self.in_use = self.plain

    def take(self, wiring: Wiring) -> None:
        """Have what comes next take a wiring (processing thread, between two batches)."""
        self.in_use = wiring
        for binding in wiring.bindings.values():
            binding.lead_on()

    def emit_held(self, limit: int) -> int:
        """Emit results that operators hold back, upstream operators first: what they emit may be held again further
        down. Returns how many are still held."""
        bindings = self._bindings
        return sum(operator.emit_held(bindings[name], limit) for name, operator in self.holding.items())

    @property
    def _bindings(self) -> dict[str, NodeBinding]:
        return self.in_use.bindings | self.wrapped if self.wrapped else self.in_use.bindings

    @cached_property
    def holding(self) -> dict[str, Operator]:
        """The operators that hold results back."""
        return {name: each for name, each in self.operators.items() if type(each).emit_held is not Operator.emit_held}

    @cached_property
    def tables(self) -> dict[str, tuple[str, Callable[[int], None]]]:
        """By store the node that keeps its table there, and the function that deletes the row which is over first. A
        store that several nodes write to is the first one's."""
        nodes = {store: name for name, each in reversed(self.operators.items()) if (store := each.kept_in) is not None}
        return {store: (name, partial(self._expire, name)) for store, name in nodes.items()}

    def _expire(self, name: str, _: int) -> None:
        self.operators[name].expire(self._bindings[name])

    def deliver(self) -> None:
        """Send the results of calls that were answered, upstream operators first."""
        bindings = self._bindings
        for name, operator in self.calling.items():
            operator.deliver(bindings[name])

    @cached_property
    def timed(self) -> dict[str, Operator]:
        """The operators that have a time of their own."""
        return {name: each for name, each in self.operators.items() if type(each).advance is not Operator.advance}

    def advance(self, times: Mapping[str, int], context: TaskContext) -> None:
        """Move these nodes on to these times, parents first. What operators above them hold for the commit is sent
        before: it belongs to a time that has passed."""
        for name, operator in self.timed.items():
            if (now := times.get(name)) is not None:
                self.send_held()
                context.timestamp = now
                operator.advance(self._bindings[name], now)

    def send_held(self) -> None:
        """Send all that is held for the commit."""
        while self.emit_held(sys.maxsize):
            pass

    @cached_property
    def calling(self) -> dict[str, Operator]:
        """The operators that make calls of coroutine functions."""
        return {name: each for name, each in self.operators.items() if type(each).deliver is not Operator.deliver}

    def probed(self, probe: Callable[[str, Push], Push]) -> Wiring:
        """Makes another wiring over the same state, with a probe in front of each node that does anything."""
        plain = self.plain
        # Operators inside of a wrapper are in one wiring only, with their answers.
        answers = None if plain.late_answers is None else dict(plain.late_answers if self.wrapped else {})
        wiring = Wiring(answers, plain.aside)
        for node in reversed(self.nodes):
            push = plain.pushes[node.name]
            if not isinstance(node, SinkNode):
                binding = plain.bindings[node.name].over(wiring.below(node), wiring.late_answers)
                wiring.bindings[node.name] = binding
                if isinstance(node, SourceNode):
                    push = self.source(binding)
                elif node.name in self.operators and node.name not in self.wrapped:
                    push = binding.heading(self.operators[node.name].bind(binding))
            wiring.pushes[node.name] = push if push is nowhere else probe(node.name, push)
        return wiring

    def source(self, binding: NodeBinding) -> Push:
        """The push function of a source."""
        return binding.forward if self.tracing is None else self.tracing.source(binding.forward)

    def close(self) -> None:
        """Close all user code; the first error is raised after everything was closed."""
        failures: list[Exception] = []
        for close in [each.close for each in self.processors.values()] + [
            each.close for each in self.operators.values()
        ]:
            try:
                close()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]


def wire(sub_topology: SubTopology, wires: Wires) -> WiredTopology:
    """Make a task's push functions, then initialise its processors in topological order."""
    wires.failures.places.update((node.name, node.place) for node in sub_topology.nodes if node.place)
    aside = frozenset(node.name for node in sub_topology.nodes if isinstance(node, ProcessorNode) and node.aside)
    plain = Wiring({} if wires.context.execution.asks_again else None, aside)
    wired = WiredTopology(sub_topology.nodes, plain, wires.tracing)
    for node in reversed(sub_topology.nodes):
        if isinstance(node, SinkNode):
            plain.pushes[node.name] = _sink(node, wires)
            if not isinstance(node.topic, str):
                wired.record_readers.add(node.name)
            continue
        binding = plain.bindings[node.name] = _binding(node, wires, wired)
        plain.pushes[node.name] = (
            wired.source(binding)
            if isinstance(node, SourceNode)
            else binding.heading(_processor(node, binding, wires, wired))
        )
    wired.operators = dict(reversed(wired.operators.items()))
    wired.processors = dict(reversed(wired.processors.items()))
    for name, processor in wired.processors.items():
        try:
            processor.init(plain.bindings[name].processor_context)
        except UserInputError:
            raise
        except Exception as error:
            raise _failed_at_start("init", name, error, wires) from error
    return wired


def _binding(node: SourceNode | ProcessorNode, wires: Wires, wired: WiredTopology) -> NodeBinding:
    binding = NodeBinding(
        node.name,
        wires.context,
        wired.plain.below(node),
        {name: wires.stores[name] for name in node.stores} if isinstance(node, ProcessorNode) else {},
        wires.failures,
        wires.default_serdes,
        record_is_read=not wired.record_readers.isdisjoint(node.children),
    )
    binding.late_answers = wired.plain.late_answers
    return binding


def _failed_at_start(where: str, node: str, error: Exception, wires: Wires) -> ProcessingError:
    named, line = wires.failures.named(node), place_of_error(error)
    at = f" ({line})" if line else ""
    what = f"{type(error).__name__} in {where} of node {named}, task {wires.context.task_id}"
    return ProcessingError(f"{what}: {error}{at}")


def _processor(node: ProcessorNode, binding: NodeBinding, wires: Wires, wired: WiredTopology) -> Push:
    try:
        made = node.supplier()
    except UserInputError:
        raise
    except Exception as error:
        raise _failed_at_start("the supplier", node.name, error, wires) from error
    if isinstance(made, Operator):
        wired.operators[node.name] = made
        if wires.wrapper is not None:
            inside = OperatorProcessor(made, binding)
            wired.wrapped[node.name] = inside.binding
            return _user_processor(node.name, wrapped(wires.wrapper, node.name, inside), binding, wired)
        made.start(binding)
        if binding.record_is_read:
            wired.record_readers.add(node.name)
        return made.bind(binding)
    if not isinstance(made, Processor):
        raise TopologyError(
            f"the supplier of processor {node.name} gave a {type(made).__name__}; it must give a Processor"
        )
    if wires.wrapper is not None:
        made = wrapped(wires.wrapper, node.name, made)
    return _user_processor(node.name, made, binding, wired)


def _user_processor(node: str, made: Processor, binding: NodeBinding, wired: WiredTopology) -> Push:
    wired.record_readers.add(node)
    wired.processors[node] = made
    return _user_push(made, binding)


def _user_push(processor: Processor, binding: NodeBinding) -> Push:
    """Adapts a user's processor to a push function."""
    task, process, on_error = binding.task, processor.process, binding.on_error

    def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        task.timestamp = timestamp
        try:
            process(Record(key, value, timestamp, headers))
        except Exception as error:
            on_error(error, key, value, timestamp, headers)

    return push


def _sink(node: SinkNode, wires: Wires) -> Push:
    if isinstance(node.topic, str):
        return _TopicSink(node, node.topic, wires).bind()
    return _dynamic_sink(node, node.topic, wires)


def _dynamic_sink(node: SinkNode, extractor: TopicNameExtractor, wires: Wires) -> Push:
    """Writes to the topic that the extractor names; one sink per topic, made on first use."""
    sinks: dict[str, Push] = {}
    context, failures = wires.context, wires.failures

    def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        try:
            topic = extractor(key, value, context.metadata())
            if not isinstance(topic, str) or topic not in sinks:
                topic_name(f"the topic extractor of {node.name}", topic)
        except Exception as error:
            failures.processing(node.name, error, timestamp, headers)
            return
        sink = sinks.get(topic)
        if sink is None:
            sink = sinks[topic] = _TopicSink(node, topic, wires).bind()
        sink(key, value, timestamp, headers)

    return push


#: Leaves the choice to the hash of the key.
_BY_KEY = (-1,)


class _TopicSink:
    """Serialises records for one topic and appends them to the task's output."""

    def __init__(self, node: SinkNode, topic: str, wires: Wires) -> None:
        self._node = node.name
        self._topic = wires.topic_name(plain_text(topic))
        self._key = (node.key_serde or wires.default_serdes.key).bind(self._topic, is_key=True)
        self._value = or_configured(node.value_serde, wires.default_serdes).bind(self._topic, is_key=False)
        self._partitioner = node.partitioner
        self._wires = wires

    def bind(self) -> Push:
        topic, emit = self._topic, self._wires.emit
        serialize_key, serialize_value = giving_bytes(self._key), giving_bytes(self._value)
        if self._partitioner is not None:
            return self._without_ids(self._bind_partitioned(self._chooser(self._partitioner)))
        sink = native.Sink(
            topic=topic,
            serialize_key=serialize_key,
            serialize_value=serialize_value,
            keeps_key=serialize_key is native.require_bytes,
            keeps_value=serialize_value is native.require_bytes,
            check_headers=check_headers,
            emit=emit,
            on_error=self._failed,
            plain_sink=PlainSink(topic, emit, self._key, self._value),
        )
        return self._without_ids(sink)

    def _failed(self, error: Exception, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        # A registry that does not answer is not asked once more.
        part = None if isinstance(error, StreamsError) else self._unwritten(key, value)
        self._wires.failures.serialization(self._node, self._topic, error, timestamp, part)

    def _unwritten(self, key: Any, value: Any) -> UnwrittenPart | None:
        """Finds the part at fault by writing both once more; ``None`` for headers."""
        for side, given, serde in (("key", key, self._key), ("value", value, self._value)):
            try:
                if given is not None:
                    giving_bytes(serde)(given)
            except Exception:
                return UnwrittenPart(side, given, serde.name)
        return None

    def _without_ids(self, push: Push) -> Push:
        """Leaves out the ids that a record of another topic has in its headers. The bytes begin with an id of their
        own, and readers would read them by that other schema."""
        ids = {name for name in (self._key.id_header, self._value.id_header) if name is not None}
        if not ids:
            return push

        def push_without(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if headers and not ids.isdisjoint(name for name, _ in headers):
                headers = [(name, data) for name, data in headers if name not in ids]
            push(key, value, timestamp, headers)

        return push_without

    def _bind_partitioned(self, choose: Callable[[Any, Any, Headers | None], Collection[int]]) -> Push:
        """As above, into the partitions that the user's partitioner chooses, before anything is serialised."""
        node, topic, emit, failures = self._node, self._topic, self._wires.emit, self._wires.failures
        serialize_key, serialize_value = giving_bytes(self._key), giving_bytes(self._value)

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                partitions = choose(key, value, headers)
            except Exception as error:
                failures.processing(node, error, timestamp, headers)
                return
            if not partitions:
                failures.log_dropped(node, NO_PARTITION)
                return
            try:
                key_bytes = None if key is None else serialize_key(key)
                value_bytes = None if value is None else serialize_value(value)
                if headers:
                    check_headers(headers)
            except Exception as error:
                self._failed(error, key, value, timestamp, headers)
                return
            for partition in partitions:
                emit((topic, value_bytes, key_bytes, partition, None, None, timestamp, headers))

        return push

    def _chooser(self, partitioner: Callable[..., Any]) -> Callable[[Any, Any, Headers | None], Collection[int]]:
        topic, partition_count = self._topic, self._wires.partition_count
        with_headers = takes_headers(f"partitioner of sink {self._node}", partitioner)

        def choose(key: Any, value: Any, headers: Headers | None) -> Collection[int]:
            count = partition_count(topic)
            if with_headers:
                chosen = partitioner(topic, key, value, [] if headers is None else headers, count)
            else:
                chosen = partitioner(topic, key, value, count)
            if chosen is None:
                return _BY_KEY
            if chosen.__class__ is int and 0 <= chosen < count:
                return (chosen,)
            partitions = chosen_partitions(topic, chosen)
            for partition in partitions:
                if not 0 <= partition < count:
                    raise ValueError(f"the partitioner chose partition {partition} of topic {topic}, which has {count}")
            return partitions

        return choose
