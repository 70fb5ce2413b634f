"""Finds the sub-topologies that users name, and the share of the processing threads that each is to have.

Called on the thread that starts an instance, reads a manifest or takes a request. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streamsapp.config.scheduling import BULK, LATENCY, PAUSE, Scheduling
from streamsapp.topology.nodes import SubTopology

_DESCRIBED = "sub-topology:"


@dataclass(frozen=True)
class Share:
    """The scheduling of one sub-topology."""

    #: It goes before others that are not.
    latency: bool
    #: Its part of the processing threads, relative to that of others of its class.
    weight: int
    #: It is set aside when it fails again and again, or hangs.
    apart: bool

    @property
    def scheduling_class(self) -> str:
        """The class by its name."""
        return LATENCY if self.latency else BULK


class SubTopologyNames:
    """The names that sub-topologies have for users: their numbers, and the topics that they read."""

    def __init__(self, parts: Iterable[SubTopology]) -> None:
        self.reads = {part.id: _reads(part) for part in parts}
        self._by_topic = {topic: number for number, topics in self.reads.items() for topic in topics}

    def of_number(self, name: int | str) -> int | None:
        """The sub-topology with this number, which may be written as ``describe`` does: ``Sub-topology: 1``."""
        number = str(name).strip().lower().removeprefix(_DESCRIBED).strip()
        return int(number) if number.isdecimal() and len(number) < 10 and int(number) in self.reads else None

    def of_source(self, topic: str) -> int | None:
        """The sub-topology that reads a topic."""
        return self._by_topic.get(topic)

    def find(self, name: str) -> int | None:
        """The sub-topology with this number, else the one that reads a topic of this name."""
        number = self.of_number(name)
        return self.of_source(name) if number is None else number

    def unknown(self, name: str) -> str:
        """Says that there is no such sub-topology, and which there are."""
        known = "; ".join(f"{number} reads {', '.join(topics) or 'nothing'}" for number, topics in self.reads.items())
        return f"there is no sub-topology {name!r:.200}, nor one that reads a topic of this name: {known}"


def shares_of(entries: Sequence[Scheduling], parts: Iterable[SubTopology]) -> Mapping[int, Share]:
    """Returns the share of every sub-topology, or nothing if no scheduling is asked for. ``scheduling_fault`` has found
    no fault."""
    names = SubTopologyNames(parts)
    named = {_found(each, names): each for each in entries}
    default = BULK if any(each.scheduling_class == LATENCY for each in entries) else LATENCY
    return {number: _share(named.get(number), default) for number in names.reads} if entries else {}


def scheduling_fault(entries: Sequence[Scheduling], parts: Iterable[SubTopology]) -> tuple[int, str] | None:
    """Returns the first entry at fault, by its place, with what is wrong with it and the remedy; ``None``: none is."""
    names, seen = SubTopologyNames(parts), dict[int, str]()
    for place, each in enumerate(entries):
        number = _found(each, names)
        if number is None:
            return place, names.unknown(each.name)
        if number in seen:
            return place, f"{each.name} is sub-topology {number}, as {seen[number]} is: name it in one entry"
        seen[number] = each.name
    return None


def _found(entry: Scheduling, names: SubTopologyNames) -> int | None:
    return names.of_number(entry.sub_topology) if entry.sub_topology is not None else names.of_source(entry.name)


def _share(entry: Scheduling | None, default: str) -> Share:
    if entry is None:
        return Share(latency=default == LATENCY, weight=1, apart=False)
    its_class = entry.scheduling_class or default
    return Share(latency=its_class == LATENCY, weight=entry.weight, apart=entry.on_failure == PAUSE)


def _reads(part: SubTopology) -> tuple[str, ...]:
    return tuple(
        topic
        for source in part.sources
        for topic in (source.topics if source.pattern is None else (source.pattern.pattern,))
    )
