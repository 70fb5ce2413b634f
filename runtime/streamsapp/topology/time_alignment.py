"""Finds the sub-topologies whose tasks are kept together in stream time: records that they write are dropped if they
come too late.

Pure. Called where an instance is put together, and where a program is described.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from streamsapp.topology.nodes import ProcessorNode, SubTopology
from streamsapp.topology.union_find import UnionFind


@dataclass(frozen=True)
class TimeGroup:
    """Sub-topologies that write for the same readers, or one that reads several topics, by their ids."""

    sub_topologies: frozenset[int]
    #: How far the tasks may be ahead of the others in stream time, in milliseconds.
    most_ahead_ms: int
    #: Says whether they wait for each other: they write for the same readers.
    are_peers: bool
    #: Those that write what these read, where these are peers, too, or read other topics as well. Where two read what
    #: the other one writes, as with a foreign-key join, none is above the other.
    above: frozenset[int]


def time_groups(parts: Collection[SubTopology], most_ahead_ms: int | None = None) -> tuple[TimeGroup, ...]:
    """The groups of a topology. A given ``most_ahead_ms`` holds for all sub-topologies that write repartition topics.

    Without, it is chosen for those above windows, joins of streams, and what else waits for late records, so that the
    records of tasks come in time. Tasks that are apart by so much make records late by so much, again at each
    repartition topic on the way; one more part is left for records that are late in their own partition.
    """
    below = _Below(parts)
    bounds = {part.id: _bound(below, part.id, most_ahead_ms) for part in parts}
    writers = {part.id for part in parts if bounds[part.id] is not None and below.readers[part.id]}
    groups = [*_together(writers, below), *({number} for number in _readers(parts, below, bounds, writers))]
    return tuple(
        TimeGroup(
            frozenset(group),
            min(bound for each in group if (bound := bounds[each]) is not None),
            not group.isdisjoint(writers),
            frozenset(each for each in writers - group if not group.isdisjoint(below.readers[each])) - below.all(group),
        )
        for group in groups
    )


def _bound(below: _Below, number: int, given: int | None) -> int | None:
    if given is not None:
        return given
    least, hops = below.least_wait(number)
    return None if least is None else least // (1 + hops)


def _together(writers: Collection[int], below: _Below) -> list[set[int]]:
    """The writers that have a reader in common."""
    sets = UnionFind()
    for number in writers:
        sets.add(f"writer {number}")
    for reader in {reader for number in writers for reader in below.readers[number]}:
        first, *others = [number for number in writers if reader in below.readers[number]]
        for other in others:
            sets.unite(f"writer {other}", f"writer {first}")
    groups: dict[str, set[int]] = {}
    for number in sorted(writers):
        groups.setdefault(sets.root(f"writer {number}"), set()).add(number)
    return list(groups.values())


def _readers(
    parts: Collection[SubTopology], below: _Below, bounds: dict[int, int | None], writers: set[int]
) -> list[int]:
    """The other readers that read more than one topic: one may be at its end while what comes is on its way."""
    return [
        part.id
        for part in parts
        if part.id not in writers
        and bounds[part.id] is not None
        and any(part.id in below.readers[each] for each in writers)
        and len(set().union(*(source.topics for source in part.sources))) + _patterns(part) > 1
    ]


def _patterns(part: SubTopology) -> int:
    return 2 * any(source.pattern is not None for source in part.sources)


class _Below:
    """The sub-topologies that read what others write."""

    def __init__(self, parts: Collection[SubTopology]) -> None:
        by_topic = {topic.name: part.id for part in parts for topic in part.repartition_sources}
        self._waits = {part.id: min(_waits(part), default=None) for part in parts}
        #: By the id of a sub-topology: those that read its repartition topics, itself left out.
        self.readers = {
            part.id: {by_topic[topic] for topic in part.repartition_sinks if topic in by_topic} - {part.id}
            for part in parts
        }

    def least_wait(self, number: int) -> tuple[int | None, int]:
        """The shortest wait for late records here or below, in milliseconds, ``None`` if nothing waits; and the most
        repartition topics on a way to one that waits, at least one."""
        waits = {each: hops for each, hops in self._reached(number).items() if self._waits[each] is not None}
        least = min((wait for each in waits if (wait := self._waits[each]) is not None), default=None)
        return least, max(waits.values(), default=1)

    def all(self, group: Iterable[int]) -> set[int]:
        """Every sub-topology below a group."""
        return {reached for number in group for reached in self._reached(number)}

    def _reached(self, number: int) -> dict[int, int]:
        """Every sub-topology below with the most repartition topics on the way. The two of a foreign-key join are below
        each other: no way is longer than there are sub-topologies."""
        reached = {} if self.readers[number] else {number: 1}
        level = {number}
        for hops in range(1, len(self.readers)):
            level = {reader for each in level for reader in self.readers[each]} - {number}
            reached.update(dict.fromkeys(level, hops))
        return reached


def _waits(part: SubTopology) -> Iterator[int]:
    for node in part.nodes:
        wait = getattr(node.supplier, "waits_for_late_ms", None) if isinstance(node, ProcessorNode) else None
        if wait is not None:
            yield wait
