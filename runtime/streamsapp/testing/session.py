"""``Session``: a topology to try out in a notebook or in the REPL, without a broker.

Called on the user's thread. The test driver does the work: every record is processed whole before ``feed`` returns, so
between two calls the topology stands still and may be replaced.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any

from streamsapp.clock import SystemClock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.dsl.builder import StreamsBuilder
from streamsapp.errors import SerializationError, TopologyError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.api import Duration, Processor, ProcessorContext
from streamsapp.record import InputRecord, Record, TopicPartition
from streamsapp.serdes.api import AnySerde, or_configured
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp.state.kinds.window import WindowStoreImpl
from streamsapp.tasks.fed_records import fed_record
from streamsapp.testing.call_charts import CALLS, Call, draw_calls
from streamsapp.testing.driver import TopologyTestDriver, not_read
from streamsapp.testing.given import as_record, unknown
from streamsapp.testing.topics import TestOutputTopic
from streamsapp.topology.application_shape import application_shape, differences, misfits
from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import Node, ProcessorNode, SinkNode, SubTopology

#: The records that are remembered of each node.
KEPT = 1_000

_ANEW = "begin a new Session"


class Session(JavaNames):
    """A topology to try out: feed records, see what every node sends on, read stores and results, replace the topology
    and go on with the state there is.

    ``topology`` is what ``build()`` returns, or the builder. Records have the serdes of the topology, or the defaults
    of ``config``. Everything that was fed and written stays in memory until the session is closed; use it as a context
    manager, or call ``close()``. Notebooks draw it.
    """

    def __init__(self, topology: Topology | StreamsBuilder, config: StreamsConfig | None = None) -> None:
        self._config = config or StreamsConfig(application_id="session", bootstrap_servers="none:9092")
        self._topology = _built(topology)
        self._clock = SystemClock()
        self._driver = _Driver(self._topology, self._config, self._clock.now_ms())
        self._calls: deque[Call] = deque(maxlen=CALLS)
        #: How many records of each topic ``results`` has given.
        self._given: defaultdict[str, int] = defaultdict(int)

    def feed(self, topic: str, *records: Record | tuple[Any, Any]) -> None:
        """Processes records, or pairs of key and value, which have the session's time. Raises ``TopologyError`` for a
        topic that the topology does not read, ``UserInputError`` for a value that is no record, ``SerializationError``
        for a record that the serdes do not write, and whatever the topology raises; the records before it were
        processed."""
        key, value = self._driver.serdes_of_input(topic)
        now = self._driver.now_ms()
        to = self._driver.create_input_topic(topic, key, value)
        with self._call() as fed:
            for number, each in enumerate(records, 1):
                record = as_record(each, f"record {number} of topic {topic}", now)
                try:
                    to.pipe_record(record)
                except SerializationError as error:
                    raise SerializationError(f"record {number}: {error}") from error
                fed.append(number)

    def results(self, topic: str) -> list[Record]:
        """Returns the records that were written to a topic since they were last asked for; changelogs have their full
        names. Bytes are given of topics that a sink chooses by record. Raises ``TopologyError`` if the topology never
        writes the topic."""
        self._driver.require_written(topic)
        written = self._driver.written(topic)
        new = deque(written[self._given[topic] :])
        self._given[topic] = len(written)
        return TestOutputTopic(topic, *self._driver.serdes_of_output(topic), new).read_records()

    def tap(self, node: str, last: int = 20) -> list[Record]:
        """Returns the last records that a node has sent on, at most ``KEPT``. Nodes of tables send pairs of the new and
        the old value. Raises ``TopologyError`` for a node that is not there, or that is a sink: ``results`` has what it
        writes."""
        tapped = self._driver.tapped
        if node not in tapped:
            raise TopologyError(f"there is no node {node!r} to tap; there are: {unknown(node, tapped)}")
        return list(tapped[node])[-last:] if last > 0 else []

    def store(self, name: str) -> Any:
        """Returns a store, for reading; those of values with timestamps give the values. Raises ``KeyError`` if there
        is none of that name."""
        store = self._driver.get_state_store(name)
        if isinstance(store, KeyValueStoreImpl):
            return self._driver.get_key_value_store(name)
        return self._driver.get_window_store(name) if isinstance(store, WindowStoreImpl) else store

    def advance(self, duration: Duration) -> None:
        """Moves the session's time by a ``timedelta`` or milliseconds; callbacks that became due are called."""
        with self._call():
            self._driver.advance_wall_clock_time(duration)

    def replace(self, topology: Topology | StreamsBuilder) -> list[str]:
        """Goes on with another topology, and returns what becomes of the state: stores of the same name and form go on
        with what they have. Raises ``TopologyError``, and goes on with the old one, if the new one is wrong or has a
        store of the same name in another form. Stream time begins anew."""
        new = _built(topology)
        name = self._config.application_id
        old_shape, new_shape = (application_shape(name, None, each) for each in (self._topology, new))
        if faults := list(misfits(old_shape, new_shape, _ANEW)):
            raise TopologyError("; ".join(faults))
        driver = _Driver(new, self._config, self._driver.now_ms(), self._driver)
        self._driver.close()
        self._topology, self._driver = new, driver
        told = differences(*(each.without(driver.emptied) for each in (old_shape, new_shape)))
        return [*told, *driver.emptied.values()]

    def close(self) -> None:
        """Closes the processors and removes the state."""
        self._driver.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return str(self._topology.describe())

    def _repr_html_(self) -> str:
        picture = self._topology.describe().to_svg()
        return f'<div><div style="overflow:auto">{picture}</div>{draw_calls(self._calls)}</div>'

    @contextmanager
    def _call(self) -> Iterator[list[int]]:
        """Remembers what a call does, for the charts; gives the list that records which were fed are added to."""
        fed = list[int]()
        written, dropped, began = self._driver.total_written(), self._driver.dropped(), self._clock.monotonic()
        try:
            yield fed
        finally:
            self._calls.append(
                Call(
                    len(fed),
                    self._clock.monotonic() - began,
                    self._driver.total_written() - written,
                    self._driver.dropped() - dropped,
                    self._driver.lateness_ms(),
                )
            )


class _Driver(TopologyTestDriver):
    """A test driver whose nodes are tapped, and which goes on from where another one stands."""

    def __init__(self, topology: Topology, config: StreamsConfig, now_ms: int, before: _Driver | None = None) -> None:
        self.tapped: dict[str, deque[Record]] = {}
        #: The stores that cannot go on with what the driver before had, each with a sentence that says so.
        self.emptied: dict[str, str] = {}
        self._before = before
        super().__init__(topology, config, now_ms)
        if before is not None:
            self._outputs, self._offsets, self._written = before._outputs, before._offsets, before._written
        self._before = None

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def written(self, topic: str) -> list[OutputRecord]:
        """Everything that was written to a topic; no reader takes any of it away."""
        return list(self._outputs[topic])

    def total_written(self) -> int:
        """The number of records that sinks have written, without those that the topology reads itself."""
        own = self._topics_read().union(each.topic for task in self._tasks for each in task.plan.changelogs.values())
        return sum(len(records) for topic, records in self._outputs.items() if topic not in own)

    def dropped(self) -> int:
        return self._tasks[0].context.dropped_records

    def lateness_ms(self) -> float | None:
        late = self._tasks[0].context.lateness.figures(self.now_ms())
        return None if late is None else late.average

    def serdes_of_input(self, topic: str) -> tuple[AnySerde, AnySerde]:
        shared = self._global.by_topic.get(topic)
        sources = [shared.source] if shared is not None else self._whole.sources
        for node in sources:
            if topic in node.topics or (node.pattern is not None and node.pattern.fullmatch(topic)):
                return self._or_default(node.key_serde, node.value_serde)
        raise TopologyError(
            not_read(topic, {*self._global.by_topic, *(each for node in self._whole.sources for each in node.topics)})
        )

    def serdes_of_output(self, topic: str) -> tuple[AnySerde, AnySerde]:
        for node in self._whole.nodes:
            if isinstance(node, SinkNode) and isinstance(node.topic, str) and self._full_name(node.topic) == topic:
                return self._or_default(node.key_serde, node.value_serde)
        return Serdes.bytes(), Serdes.bytes()

    def _or_default(self, key: AnySerde | None, value: AnySerde | None) -> tuple[AnySerde, AnySerde]:
        own = self._config
        return key or own.default_key_serde, or_configured(value, own.default_serdes)

    def _parts(self, topology: Topology) -> SubTopology:
        whole = super()._parts(topology)
        nodes = [node for node in whole.nodes if not isinstance(node, SinkNode)]
        self.tapped = {node.name: deque(maxlen=KEPT) for node in nodes}
        taps = [ProcessorNode(_tap_name(name), partial(_Tap, records)) for name, records in self.tapped.items()]
        return replace(whole, nodes=(*map(_with_tap, whole.nodes), *taps))

    def _restored(self, changelogs: Mapping[str, TopicPartition]) -> Mapping[str, Sequence[InputRecord]]:
        before = self._before
        if before is None:
            return {}
        had = {store.name for store in before._whole.stores}
        stays = {name: each.topic for name, each in changelogs.items() if name in had and each.topic in before._outputs}
        for store in self._whole.stores:
            if store.name in had and store.name not in changelogs:
                self.emptied[store.name] = f"store {store.name} begins empty: it has no changelog of its own"
        for name in self._global.stores.stores:
            self.emptied[name] = f"global store {name} begins empty: feed its topic again"
        return {name: _raw(before._outputs[topic]) for name, topic in stays.items()}


class _Tap(Processor):
    """Remembers what a node sends on."""

    def __init__(self, records: deque[Record]) -> None:
        self._remember: Callable[[Record], None] = records.append

    def init(self, context: ProcessorContext) -> None:
        """Needs nothing of it."""

    def process(self, record: Record) -> None:
        self._remember(record)


def _with_tap(node: Node) -> Node:
    return node if isinstance(node, SinkNode) else replace(node, children=(*node.children, _tap_name(node.name)))


def _tap_name(node: str) -> str:
    return f"{node} (tap)"  # no name that a node may have


def _raw(records: Iterable[OutputRecord]) -> list[InputRecord]:
    return [
        fed_record(topic, 0, number, key, value, timestamp, headers)
        for number, (topic, value, key, _, _, _, timestamp, headers) in enumerate(records)
    ]


def _built(topology: Topology | StreamsBuilder) -> Topology:
    return topology.build() if isinstance(topology, StreamsBuilder) else topology
