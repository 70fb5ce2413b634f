"""The topic that a store's entries come from, and the time at which they were last known to be all that it had.

Kept beside the store's offset in the database (docs/decisions/0038-positions.md). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.record import UNKNOWN_TOPIC, TopicIdentity

#: Of a store whose age was never noted.
UNKNOWN_AGE = -1


@dataclass(frozen=True)
class Provenance:
    """The origin of a store's entries."""

    #: The changelog that the store's offset belongs to.
    topic: TopicIdentity = UNKNOWN_TOPIC
    #: The last time when the store was known to have all that its changelog had, or to be empty. Records that it lacks
    #: were written later. In milliseconds since the epoch, by the clock of the instance.
    fresh_at_ms: int = UNKNOWN_AGE

    def encode(self) -> bytes:
        """Returns the bytes to keep."""
        return f"{self.fresh_at_ms} {self.topic.topic_id} {self.topic.cluster_id}".encode()

    @classmethod
    def decode(cls, data: bytes) -> Provenance:
        """Reads the kept facts; anything that cannot be read is not known."""
        try:
            fresh_at_ms, topic_id, cluster_id = data.decode().split(" ", 2)
            topic = TopicIdentity(topic_id, cluster_id)
            return cls(topic, int(fresh_at_ms)) if len(topic.id_bytes) in (0, 16) else cls()
        except ValueError:
            return cls()
