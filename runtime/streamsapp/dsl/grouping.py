"""Holds what all aggregations of one grouped stream share: its place, its serdes, and the repartition topic in front.

Shared by ``KGroupedStream`` and its windowed forms; used on the thread that builds the program.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streamsapp.dsl.fitting import fit_place
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.names import NameGenerator, repartition_names
from streamsapp.dsl.nodes import AggregationNode, RepartitionNode
from streamsapp.dsl.operators.combine import Merge
from streamsapp.dsl.options import Grouped
from streamsapp.dsl.place import Place
from streamsapp.dsl.table_store import TableStore
from streamsapp.dsl.table_supplier import AggregatedTable
from streamsapp.errors import TopologyError
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes


class Grouping:
    """The place of a grouped stream, and the topic that brings its records to the partition of their key."""

    def __init__(self, place: Place, grouped: Grouped[Any, Any]) -> None:
        fit_place("grouping", place, grouped.key_serde, grouped.value_serde, "Grouped")
        self.place = place
        self.key_serde: AnySerde | None = grouped.key_serde or place.key_serde
        self.value_serde: AnySerde | None = grouped.value_serde or place.value_serde
        #: Says whether records of one key are combined in front of the repartition topic.
        self.combines = grouped.combine and place.key_changed
        self._topic_name = grouped.name
        self._repartition: RepartitionNode | None = None

    @property
    def names(self) -> NameGenerator:
        """The name generator of the program that the stream belongs to."""
        return self.place.graph.names

    @property
    def takes_default_name(self) -> bool:
        """True if the repartition topic that the group needs has the name of the table."""
        return self.place.key_changed and self._topic_name is None

    def table(
        self,
        name: str,
        store: TableStore,
        table: AggregatedTable,
        key_serde: AnySerde | None,
        merge: Merge | None = None,
        closes_after_ms: int | None = None,
    ) -> KTable[Any, Any]:
        """Returns the aggregated table, behind a repartition topic if the key was changed. ``closes_after_ms`` is the
        time in milliseconds after its end at which a window closes."""
        place = self.repartitioned(store, merge)
        node = AggregationNode(name, table, closes_after_ms)
        place = place.then(node, key_serde, store.value_serde, key_changed=False)
        return KTable(place, table)

    def records_of(self, place: Place) -> Place:
        """Returns the place of an aggregation with the serdes of the records that come to it."""
        return replace(place, key_serde=self.key_serde, value_serde=self.value_serde, key_changed=False)

    def repartitioned(self, store: TableStore, merge: Merge | None = None) -> Place:
        """Returns a place in which every record is in the partition of its key. The topic that this takes is named
        after ``store``, unless it has a name of its own."""
        if not self.place.key_changed:
            return self.place
        node = self._repartition_node(store, merge)
        return self.place.then(node, self.key_serde, self.value_serde, key_changed=False)

    def _repartition_node(self, store: TableStore, merge: Merge | None) -> RepartitionNode:
        """Returns the topic in front of an aggregation. A topic that the user named serves all aggregations of this
        group."""
        given = self._topic_name is not None or store.queryable
        names = repartition_names(self.names, self._topic_name or store.name, given=given)
        if self._repartition is not None and self._topic_name is not None:
            if merge is not None or self._repartition.merge is not None:
                raise TopologyError(
                    f"repartition topic {names.topic} holds the partial aggregates of one aggregation (combine=True); "
                    "group the stream again, under another name, for the next"
                )
            return self._repartition
        value_serde = Serdes.long() if merge is not None and merge.counts else self.value_serde
        self._repartition = RepartitionNode(names, self.key_serde, value_serde, optimizable=True, merge=merge)
        return self._repartition
