"""Binds a sub-topology to one task: every node becomes a push function, children before parents.

Called on the polling thread when a task is created; the functions run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from streamsapp import native
from streamsapp.errors import ProcessingError, TopologyError, UserInputError, place_of_error
from streamsapp.outgoing import OutputRecord
from streamsapp.plain_text import plain_text
from streamsapp.processor.api import Processor, StreamPartitioner, TopicNameExtractor
from streamsapp.processor.operator import Operator, PlainSink, Push
from streamsapp.processor.partitions import chosen_partitions
from streamsapp.record import Headers, Record, check_headers
from streamsapp.serdes.api import DefaultSerdes, or_configured
from streamsapp.serdes.serdes import require_bytes
from streamsapp.tasks.failures import FailureHandling
from streamsapp.tasks.probes import Probes
from streamsapp.tasks.processor_context import NodeBinding, UserContext
from streamsapp.tasks.sink_bytes import giving_bytes
from streamsapp.tasks.task_context import TaskContext
from streamsapp.tasks.tracing import Tracing
from streamsapp.topology.name_rules import topic_name
from streamsapp.topology.nodes import ProcessorNode, SinkNode, SourceNode, SubTopology


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


@dataclass
class WiredTopology:
    """The push functions of a task and the user code behind them."""

    #: Source node name to the push function of what is below it.
    sources: dict[str, Push] = field(default_factory=dict)
    #: Parents before children, as the processors.
    operators: list[Operator] = field(default_factory=list)
    processors: list[tuple[str, Processor]] = field(default_factory=list)
    #: Every node's push function, and what is bound to it.
    pushes: dict[str, Push] = field(default_factory=dict)
    contexts: dict[str, UserContext] = field(default_factory=dict)
    #: The nodes that may ask for the record in process, and those above them.
    record_readers: set[str] = field(default_factory=set)
    probes: Probes = field(init=False)

    def __post_init__(self) -> None:
        self.probes = Probes(
            self.pushes, self.sources, lambda: [*self.pushes.values(), *self.operators, *self.contexts.values()]
        )

    def close(self) -> None:
        """Close all user code; the first error is raised after everything was closed."""
        failures: list[Exception] = []
        for closeable in [processor for _, processor in self.processors] + self.operators:
            try:
                closeable.close()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]


def wire(sub_topology: SubTopology, wires: Wires) -> WiredTopology:
    """Make a task's push functions, then initialise its processors in topological order."""
    wires.failures.places.update((node.name, node.place) for node in sub_topology.nodes if node.place)
    wired = WiredTopology()
    pushes = wired.pushes
    for node in reversed(sub_topology.nodes):
        if isinstance(node, SinkNode):
            pushes[node.name] = _sink(node, wires)
            if not isinstance(node.topic, str):
                wired.record_readers.add(node.name)
            continue
        children = {name: pushes[name] for name in node.children}
        if isinstance(node, SourceNode):
            push = NodeBinding(node.name, wires.context, children, {}, wires.failures, wires.default_serdes).forward
            pushes[node.name] = push if wires.tracing is None else wires.tracing.source(push)
            wired.sources[node.name] = pushes[node.name]
            continue
        pushes[node.name] = _processor(node, children, wires, wired)
    wired.processors.reverse()
    wired.operators.reverse()
    for name, processor in wired.processors:
        try:
            processor.init(wired.contexts[name])
        except UserInputError:
            raise
        except Exception as error:
            raise _failed_at_start("init", name, error, wires) from error
    return wired


def _failed_at_start(where: str, node: str, error: Exception, wires: Wires) -> ProcessingError:
    named, line = wires.failures.named(node), place_of_error(error)
    at = f" ({line})" if line else ""
    what = f"{type(error).__name__} in {where} of node {named}, task {wires.context.task_id}"
    return ProcessingError(f"{what}: {error}{at}")


def _processor(
    node: ProcessorNode,
    children: Mapping[str, Push],
    wires: Wires,
    wired: WiredTopology,
) -> Push:
    stores = {name: wires.stores[name] for name in node.stores}
    read_below = not wired.record_readers.isdisjoint(children)
    binding = NodeBinding(
        node.name,
        wires.context,
        children,
        stores,
        wires.failures,
        wires.default_serdes,
        record_is_read=read_below,
    )
    try:
        made = node.supplier()
    except UserInputError:
        raise
    except Exception as error:
        raise _failed_at_start("the supplier", node.name, error, wires) from error
    if isinstance(made, Operator):
        wired.operators.append(made)
        push = made.bind(binding)
        if binding.record_is_read:
            wired.record_readers.add(node.name)
        return push
    if not isinstance(made, Processor):
        raise TopologyError(
            f"the supplier of processor {node.name} gave a {type(made).__name__}; it must give a Processor"
        )
    wired.record_readers.add(node.name)
    wired.processors.append((node.name, made))
    wired.contexts[node.name] = UserContext(binding)
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
        node, topic, emit, failures = self._node, self._topic, self._wires.emit, self._wires.failures
        serialize_key, serialize_value = giving_bytes(self._key), giving_bytes(self._value)
        if self._partitioner is not None:
            return self._without_ids(self._bind_partitioned(self._chooser(self._partitioner)))
        sink = native.Sink(
            topic=topic,
            serialize_key=serialize_key,
            serialize_value=serialize_value,
            keeps_key=serialize_key is require_bytes,
            keeps_value=serialize_value is require_bytes,
            check_headers=check_headers,
            emit=emit,
            on_error=partial(failures.serialization, node, topic),
            plain_sink=PlainSink(topic, emit, self._key, self._value),
        )
        return self._without_ids(sink)

    def _without_ids(self, push: Push) -> Push:
        """Leaves out the ids that a record of another topic has in its headers: readers would take the bytes, which
        begin with an id of their own, for those of that other schema."""
        ids = {name for name in (self._key.id_header, self._value.id_header) if name is not None}
        if not ids:
            return push

        def push_without(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if headers and not ids.isdisjoint(name for name, _ in headers):
                headers = [(name, data) for name, data in headers if name not in ids]
            push(key, value, timestamp, headers)

        return push_without

    def _bind_partitioned(self, choose: Callable[[Any, Any], Collection[int]]) -> Push:
        """As above, into the partitions that the user's partitioner chooses, before anything is serialised."""
        node, topic, emit, failures = self._node, self._topic, self._wires.emit, self._wires.failures
        serialize_key, serialize_value = giving_bytes(self._key), giving_bytes(self._value)

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                partitions = choose(key, value)
            except Exception as error:
                failures.processing(node, error, timestamp, headers)
                return
            if not partitions:
                failures.log_dropped(node, "the partitioner chose no partition")
                return
            try:
                key_bytes = None if key is None else serialize_key(key)
                value_bytes = None if value is None else serialize_value(value)
                if headers:
                    check_headers(headers)
            except Exception as error:
                failures.serialization(node, topic, error, timestamp)
                return
            for partition in partitions:
                emit((topic, value_bytes, key_bytes, partition, None, None, timestamp, headers))

        return push

    def _chooser(self, partitioner: StreamPartitioner) -> Callable[[Any, Any], Collection[int]]:
        topic, partition_count = self._topic, self._wires.partition_count

        def choose(key: Any, value: Any) -> Collection[int]:
            count = partition_count(topic)
            chosen = partitioner(topic, key, value, count)
            if chosen is None:
                return _BY_KEY
            partitions = chosen_partitions(topic, chosen)
            for partition in partitions:
                if not 0 <= partition < count:
                    raise ValueError(f"the partitioner chose partition {partition} of topic {topic}, which has {count}")
            return partitions

        return choose
