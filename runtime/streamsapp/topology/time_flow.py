"""The way of time through a topology where inputs are silent: which sources move it on by the clock, the nodes that it
reaches, and how far records may be behind it that operators above have wait (docs/decisions/0057-time-markers.md).

Pure; worked out when a topology is split, on the thread that builds it or the polling thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from streamsapp.errors import TopologyError
from streamsapp.processor.api import Processor
from streamsapp.processor.operator import Operator, Waits
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.kinds.key_value import KEY_VALUE
from streamsapp.state.kinds.outer_join import OUTER_JOIN
from streamsapp.state.kinds.waiting_records import WAITING_RECORDS
from streamsapp.topology.nodes import ProcessorNode, SinkNode, SourceNode, SubTopology

SUFFIX = "-time-markers"

#: By source: how long its records may wait above a node.
Above = Mapping[str, Waits]


@dataclass(frozen=True)
class TimeFlow:
    """The way of time through one sub-topology."""

    #: The store of the markers.
    store: str
    #: The silence in milliseconds after which time moves on, of the sources that have one.
    idle_after_ms: Mapping[str, int]
    #: The sub-topologies that write each source which is told the time by its topic.
    told_by: Mapping[str, frozenset[int]]
    #: The nodes that time reaches: the sources above each, with the longest time for which its records are held there.
    nodes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: The same of repartition topics below.
    topics: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: The time after the last record by which all that waited for time is through, wherever it went; and whether there
    #: are processors of the user's, of which that is not known.
    closing_ms: int = 0
    has_processors: bool = False

    @property
    def interval_ms(self) -> int:
        """The steps of stream time in which repartition topics are told it."""
        return min(self.idle_after_ms.values(), default=1000)


def with_time_flow(parts: Sequence[SubTopology]) -> tuple[SubTopology, ...]:
    """Returns the same sub-topologies, with the way of time through them if a source moves it on. Raises
    ``TopologyError`` for operators that cannot go by it."""
    if all(source.idle_after_ms is None for part in parts for source in part.sources):
        return tuple(parts)
    return _Flows(parts).made()


def refuse_idle_after(parts: Iterable[SubTopology], where: str, instead: str) -> None:
    """Raises ``TopologyError`` that names the first source with ``idle_after``, where nobody would mark it."""
    for part in parts:
        for source in part.sources:
            if source.idle_after_ms is not None:
                raise TopologyError(
                    f"source {source.name}: {where} makes no time markers, so idle_after would do nothing; {instead}"
                )


class _Flows:
    def __init__(self, parts: Sequence[SubTopology]) -> None:
        self._parts = parts
        self._operators = {node.name: _operator(node) for part in parts for node in part.nodes}
        self._told = self._told_topics()
        self._above = {part.id: self._paths(part) for part in parts}
        self._whole = self._beyond()

    def made(self) -> tuple[SubTopology, ...]:
        return tuple(self._with_flow(part) for part in self._parts)

    def _told_topics(self) -> dict[str, frozenset[int]]:
        """The repartition topics that time goes through, with the sub-topologies that write them."""
        told: dict[str, set[int]] = {}
        while True:
            before = sum(map(len, told.values()))
            for part in self._parts:
                timed = {each.name for each in part.sources if self._is_timed(each, told)}
                below = _reached(part, timed)
                for node in part.nodes:
                    if isinstance(node, SinkNode) and node.name in below and node.topic in part.repartition_sinks:
                        told.setdefault(str(node.topic), set()).add(part.id)
            if sum(map(len, told.values())) == before:
                break
        writers = {topic: {part.id for part in self._parts if topic in part.repartition_sinks} for topic in told}
        return {topic: frozenset(ids) for topic, ids in writers.items() if ids == told[topic]}

    @staticmethod
    def _is_timed(source: SourceNode, told: Iterable[str]) -> bool:
        return source.idle_after_ms is not None or not set(told).isdisjoint(source.topics)

    def _paths(self, part: SubTopology, first: Mapping[str, Waits] | None = None) -> dict[str, dict[str, Waits]]:
        """By node: the sources above it, and how long their records may wait until they are there."""
        above: dict[str, dict[str, Waits]] = {}
        for node in part.nodes:
            here = above.setdefault(node.name, {})
            if isinstance(node, SourceNode):
                here[node.name] = (first or {}).get(node.name, Waits())
            if isinstance(node, SinkNode):
                continue
            operator = self._operators[node.name]
            for child in node.children:
                below = above.setdefault(child, {})
                for source, waits in here.items():
                    through = waits if operator is None else operator.waits(waits)
                    below[source] = below.get(source, Waits()).merged(through)
        for together in _meeting(part):
            met: dict[str, Waits] = {}
            for name in together:
                for source, waits in above[name].items():
                    met[source] = met.get(source, Waits()).merged(waits)
            for name in together:
                above[name] = dict(met)
        return above

    def _beyond(self) -> tuple[int, bool]:
        """The longest way of time, from a source through repartition topics, and whether there are processors."""
        topics: dict[str, Waits] = {}
        closing, processors = 0, False
        for _ in range(len(self._parts) + 1):  # a loop of topics would go on for ever
            for part in self._parts:
                first = {source.name: topics.get(topic, Waits()) for source in part.sources for topic in source.topics}
                timed = {each.name for each in part.sources if self._is_timed(each, self._told)}
                below = _reached(part, timed)
                for name, sources in self._paths(part, first).items():
                    if name not in below:
                        continue
                    operator, node = self._operators[name], next(each for each in part.nodes if each.name == name)
                    for waits in sources.values():
                        through = waits if operator is None else operator.waits(waits)
                        closing = max(closing, through.closing)
                        if isinstance(node, SinkNode) and node.topic in self._told:
                            topics[str(node.topic)] = topics.get(str(node.topic), Waits()).merged(through)
                    processors |= isinstance(node, ProcessorNode) and operator is None
        return closing, processors

    def _with_flow(self, part: SubTopology) -> SubTopology:
        idle = {each.name: each.idle_after_ms for each in part.sources if each.idle_after_ms is not None}
        told = {
            each.name: frozenset().union(*(self._told[topic] for topic in each.topics if topic in self._told))
            for each in part.sources
            if not self._told.keys().isdisjoint(each.topics)
        }
        if not (idle or told):
            return part
        below = _reached(part, {*idle, *told})
        self._refuse_calls(part, below)
        first = next(each.name for each in part.sources if each.name in idle or each.name in told)
        above = {
            name: {source: waits.held for source, waits in sources.items()}
            for name, sources in self._above[part.id].items()
            if name in below
        }
        topics: dict[str, dict[str, int]] = {}
        for node in part.nodes:
            if isinstance(node, SinkNode) and node.name in above and node.topic in self._told:
                held = topics.setdefault(str(node.topic), {})
                for source, wait in above[node.name].items():
                    held[source] = max(wait, held.get(source, 0))
        flow = TimeFlow(first + SUFFIX, idle, told, above, topics, *self._whole)
        stores = part.stores
        if all(store.name != flow.store for store in stores):
            stores = (*stores, _store(flow.store))
        return replace(part, stores=stores, time=flow)

    @staticmethod
    def _refuse_calls(part: SubTopology, below: set[str]) -> None:
        calling = {store.name for store in part.stores if store.type == WAITING_RECORDS}
        for node in part.nodes:
            if isinstance(node, ProcessorNode) and node.name in below and not calling.isdisjoint(node.stores):
                raise TopologyError(
                    f"node {node.name}: map_async cannot be below a source with idle_after, as time would pass records "
                    "that wait for an answer; write its results to a topic, and read that with idle_after"
                )


def _operator(node: object) -> Operator | None:
    """An operator as the node has it, which says how long records wait; ``None`` where it is the user's code."""
    if not isinstance(node, ProcessorNode):
        return None
    if isinstance(node.supplier, type) and issubclass(node.supplier, Processor):
        return None
    made = node.supplier()
    return made if isinstance(made, Operator) else None


def _reached(part: SubTopology, sources: Iterable[str]) -> set[str]:
    """The nodes that records of these sources reach, those included."""
    reached = set(sources)
    for node in part.nodes:
        if node.name in reached and not isinstance(node, SinkNode):
            reached.update(node.children)
    return reached


def _meeting(part: SubTopology) -> Iterator[list[str]]:
    """The two sides of each outer join: a record without partner waits for the time of both."""
    for store in part.stores:
        if store.type == OUTER_JOIN:
            yield [node.name for node in part.nodes if isinstance(node, ProcessorNode) and store.name in node.stores]


def _store(name: str) -> StoreBuilder:
    return StoreBuilder(name, KEY_VALUE, Engine.ROCKSDB, Serdes.bytes(), Serdes.bytes())
