"""Finds the stores and internal topics whose names were generated, and refuses them where that is configured
(KIP-1111).

Called on the thread that builds a topology, starts an instance or reads a manifest. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ConfigError
from streamsapp.topology.subtopologies import TopologyDefinition

_REMEDY = (
    'name stores with Materialized("name"), StreamJoined(store_name="name") or Suppressed(...).with_name("name"), and '
    'topics with Grouped("name"), Repartitioned("name"), or the name of the join or of to_table; the numbers of '
    "generated names change with the program, and then the state behind them is not found again"
)


def check_names(fault: Callable[[], str | None], config: StreamsConfig) -> None:
    """Raises ``ConfigError`` where all names have to be given and ``fault``, of a topology, finds one that is not."""
    if config.ensure_explicit_internal_resource_naming and (found := fault()) is not None:
        raise ConfigError(f"ensure_explicit_internal_resource_naming: {found}")


def naming_fault(
    graph: TopologyDefinition, places_of_stores: Mapping[str, str], generated: Collection[str]
) -> str | None:
    """Returns which stores and internal topics have generated names, with the line that added each and the remedy;
    ``None`` if there are none. Only resources that the topology has are named, whatever was built on the way."""
    places_of_topics = {topic: source.place for source in graph.sources() for topic in source.topics}
    places = {name: graph.nodes[store.processor.name].place for name, store in graph.global_stores.items()}
    places |= places_of_stores
    found = [
        *_named("state store", (name for name in (*graph.stores, *graph.global_stores) if name in generated), places),
        *_named("internal topic", (name for name in graph.internal_topics if name in generated), places_of_topics),
    ]
    return f"generated names: {', '.join(found)}; {_REMEDY}" if found else None


def _named(kind: str, names: Iterable[str], places: Mapping[str, str]) -> Iterable[str]:
    return (f"{kind} {name} (added at {places[name]})" if places.get(name) else f"{kind} {name}" for name in names)
