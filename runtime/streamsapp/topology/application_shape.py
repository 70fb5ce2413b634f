"""The facts of a topology on which its topics and its state depend, and what an edit changes about them. Pure.

``local --watch`` and ``Session`` compare the topology that runs with the one that is to run, on the main thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import SourceNode


class SubTopologyShape(msgspec.Struct, rename="camel", frozen=True):
    """The topics that a sub-topology reads, and the types of its stores by their names."""

    reads: tuple[str, ...]
    stores: dict[str, str]


class ApplicationShape(msgspec.Struct, rename="camel", frozen=True):
    """An application as ``streamsapp validate -o json`` prints it."""

    application_id: str
    #: As the manifest names them, ``None`` if it does not.
    bootstrap_servers: str | None
    sub_topologies: dict[str, SubTopologyShape]

    @property
    def stores(self) -> dict[str, StoreShape]:
        return {
            name: StoreShape(kind, part.reads)
            for part in self.sub_topologies.values()
            for name, kind in part.stores.items()
        }

    def without(self, stores: Collection[str]) -> ApplicationShape:
        """Returns the same as if there were no such stores."""
        parts = {
            number: SubTopologyShape(
                part.reads, {name: each for name, each in part.stores.items() if name not in stores}
            )
            for number, part in self.sub_topologies.items()
        }
        return ApplicationShape(self.application_id, self.bootstrap_servers, parts)


@dataclass(frozen=True)
class StoreShape:
    """The type of a store, and the topics that fill it."""

    type: str
    reads: tuple[str, ...]

    @property
    def changelog_form(self) -> str:
        """The same for all types whose changelogs are alike: a store is made from any of them."""
        kind = self.type.removeprefix("ttl_").removeprefix("timestamped_")
        return kind.partition("-")[0].removesuffix("_by_time")


def misfits(old: ApplicationShape, new: ApplicationShape, anew: str) -> Iterator[str]:
    """Yields why the new topology cannot go on with what the old one has left, each with its remedy; ``anew`` says how
    it begins with nothing."""
    if new.application_id != old.application_id:
        yield (
            f"the application id was {old.application_id} and is {new.application_id}: topics and state are others; "
            "stop this `local` and start it again"
        )
    if new.bootstrap_servers != old.bootstrap_servers:
        yield (
            f"spec.kafka.bootstrapServers was {old.bootstrap_servers} and is {new.bootstrap_servers}: topics are "
            "elsewhere; stop this `local` and start it again"
        )
    after = new.stores
    for name, store in old.stores.items():
        if name in after and after[name].changelog_form != store.changelog_form:
            yield (
                f"store {name} was of type {store.type} and is of type {after[name].type}, which cannot read what its "
                f"changelog has: give it another name, or {anew}"
            )


def differences(old: ApplicationShape, new: ApplicationShape) -> Iterator[str]:
    """Yields what happens to the state of a topology that fits."""
    before, after = old.stores, new.stores
    if kept := sorted(before.keys() & after.keys()):
        yield f"state is kept: {', '.join(kept)}"
    for name in sorted(after.keys() - before.keys()):
        yield f"store {name} is new: it knows nothing of the records that were read before"
    for name in sorted(before.keys() - after.keys()):
        yield f"store {name} is no longer used; its changelog stays, and a store of this name goes on from it"
    for name in kept:
        if before[name].reads != after[name].reads:
            were, are = (", ".join(each[name].reads) or "nothing" for each in (before, after))
            yield f"store {name} is filled from {are}, and keeps what it has from {were}"


def application_shape(application_id: str, bootstrap_servers: str | None, topology: Topology) -> ApplicationShape:
    """Returns the shape of an application; ``bootstrap_servers`` are the ones that its manifest names."""
    shape = shape_of(topology)
    parts = {
        number: SubTopologyShape(tuple(reads), shape["stores"][number]) for number, reads in shape["sources"].items()
    }
    return ApplicationShape(application_id, bootstrap_servers, parts)


def shape_of(topology: Topology) -> dict[str, Any]:
    """Returns the facts that old and new pods must agree on to work side by side; internal topics without the
    application's prefix."""
    parts = topology.sub_topologies()
    return {
        "sources": {
            str(part.id): sorted({topic for source in part.sources for topic in _topics(source)}) for part in parts
        },
        "stores": {str(part.id): {store.name: store.type.name for store in part.stores} for part in parts},
    }


def _topics(source: SourceNode) -> Sequence[str]:
    """A pattern stands for itself: which topics match it is the broker's to say."""
    return source.topics if source.pattern is None else [f"/{source.pattern.pattern}/"]
