"""Judges by their topologies whether old and new pods of an application can work side by side. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from streamsapp_operator.model.observed_state import TopologyShape

#: The shape of a topology as the status has it.
Shape: TypeAlias = dict[str, Any]


def encode(shape: TopologyShape | None) -> dict[str, Any] | None:
    """Returns the shape of a topology as the status has it."""
    if shape is None:
        return None
    return {
        "sources": {str(number): list(topics) for number, topics in shape.sources.items()},
        "stores": {str(number): dict(stores) for number, stores in shape.stores.items()},
    }


def decode(document: dict[str, Any] | None) -> TopologyShape | None:
    """Reads the shape from the status; a shape that cannot be read is not known."""
    try:
        return None if document is None else TopologyShape(
            sources={int(number): tuple(topics) for number, topics in document["sources"].items()},
            stores={int(number): dict(stores) for number, stores in document["stores"].items()},
        )  # fmt: skip
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def kept_apart(document: Shape | None) -> dict[str, list[str]]:
    """Reads the revisions that cannot work beside the one with this topology, with the reasons, as an operator wrote
    them that did not keep their topologies."""
    try:
        return {revision: list(map(str, why)) for revision, why in (document or {}).get("apart", {}).items()}
    except (TypeError, AttributeError):
        return {}


def stateful(shape: TopologyShape) -> frozenset[int]:
    """Returns the sub-topologies that have stores."""
    return frozenset(number for number, stores in shape.stores.items() if stores)


def compatibility(old: TopologyShape, new: TopologyShape) -> list[str]:
    """Returns why pods of both cannot work side by side, in words; empty if they can. Parts that only the new one has
    are no reason, and neither is a store that the new one lacks."""
    return [*_sources(old, new), *_topics(old, new), *_stores(old, new)]


def conflicts(there: TopologyShape, new: TopologyShape) -> list[str]:
    """Returns why pods of two revisions cannot work side by side, in words; neither revision is the one to go on from.
    Parts that only one of them has are no reason."""
    shared = {number: topics for number, topics in there.sources.items() if number in new.sources}
    changed = _sources(TopologyShape(sources=shared, stores={}), new)
    return [*changed, *_topics(there, new), *_stores(there, new)]


def _sources(old: TopologyShape, new: TopologyShape) -> Iterator[str]:
    for number, topics in sorted(old.sources.items()):
        now = new.sources.get(number)
        if now is None:
            if old.stores.get(number):
                yield f"sub-topology {number} with stores {_listed(old.stores[number])} is gone"
        elif sorted(now) != sorted(topics):
            yield f"sub-topology {number} read {_listed(topics)} and would now read {_listed(now)}"


def _topics(old: TopologyShape, new: TopologyShape) -> Iterator[str]:
    """Yields the topics that tasks of two ids would read at a time; of a sub-topology that both have, ``_sources``
    compares them."""
    places = {topic: number for number, topics in new.sources.items() for topic in topics}
    for number, topics in sorted(old.sources.items()):
        for topic in sorted(topics):
            now = places.get(topic, number)
            if now != number and number not in new.sources:
                yield f"topic {topic} was read by sub-topology {number} and would now be by {now}"


def _stores(old: TopologyShape, new: TopologyShape) -> Iterator[str]:
    places = {name: (number, kind) for number, stores in new.stores.items() for name, kind in stores.items()}
    for number, stores in sorted(old.stores.items()):
        for name, kind in sorted(stores.items()):
            now, now_kind = places.get(name, (number, kind))
            if now != number:
                yield f"store {name} moved from sub-topology {number} to {now}"
            if now_kind != kind:
                yield f"store {name} was a {kind} store and would now be a {now_kind} store"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
