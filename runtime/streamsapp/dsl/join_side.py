"""``JoinSide``: one side of a join of streams, and the topic in front of it if one is needed.

Used on the thread that builds the program.
"""

from __future__ import annotations

from streamsapp.dsl.names import repartition_names
from streamsapp.dsl.nodes import RepartitionNode
from streamsapp.dsl.place import Place
from streamsapp.serdes.api import AnySerde


class JoinSide:
    """A stream on one side of joins. Joins that the user does not name share one repartition topic of the stream."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._shared: RepartitionNode | None = None

    def repartitioned(self, name: str | None, key_serde: AnySerde | None, value_serde: AnySerde | None) -> Place:
        """Returns a place in which every record is in the partition of its key. Serdes that are not given are the
        stream's.

        ``name`` names the topic; it is used only if the key was changed.
        """
        place = self.place
        key_serde, value_serde = key_serde or place.key_serde, value_serde or place.value_serde
        if not place.key_changed:
            return place
        # As in Kafka Streams, a topic that is there already uses up the numbers of its names again.
        names = repartition_names(place.graph.names, name or place.name, given=name is not None)
        node = self._shared
        if node is None or name is not None:
            node = self._shared = RepartitionNode(names, key_serde, value_serde, optimizable=True)
            place.graph.add(node, place.node)
        return Place(place.graph, node, node.name, key_serde, value_serde)
