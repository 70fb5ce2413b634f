"""A partition that is fetched: where it stands, and its fetched records that were not taken.

Pure; used on the consumer's thread.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto

from streamsapp import native
from streamsapp.kafka.described import NONE
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.record import UNKNOWN_TOPIC, TopicIdentity, TopicPartition

#: So many answers of a partition may wait: one is taken while the next one comes.
_AHEAD = 2


class Doubt(Enum):
    """The steps before a broker is believed that it does not have the offset that was to be fetched, and the ends."""

    NONE = auto()
    #: It said so; after a pause the leader of the partition is looked up.
    PAUSES = auto()
    #: The broker that leads it now is asked, and is believed.
    ASKS = auto()
    #: The broker does not have the offset that was to be fetched.
    LOST = auto()
    #: The name of the topic stands for another one by now.
    REPLACED = auto()


#: Nothing more is fetched then. A tuple: members of an enumeration are hashed by Python.
_ENDED = (Doubt.LOST, Doubt.REPLACED)


class FetchSource:
    """The broker that a partition is asked of: its leader, or a follower that this has named (KIP-392)."""

    __slots__ = ("leader", "leader_epoch", "replica", "replica_until", "source")

    def __init__(self) -> None:
        #: The broker that leads it, the epoch of its election, and the broker that is asked for records; -1: unknown.
        self.leader = self.leader_epoch = self.source = NONE
        #: A follower that is asked instead, and until when, in monotonic seconds.
        self.replica, self.replica_until = NONE, 0.0

    @property
    def is_followed(self) -> bool:
        """True if a follower is asked."""
        return self.source == self.replica != NONE

    def led_by(self, leader: int, epoch: int, now: float) -> None:
        """Ask this leader, or the follower that it has named in this epoch a while ago."""
        if (leader, epoch) != (self.leader, self.leader_epoch) or now >= self.replica_until:
            self.replica = NONE
        self.leader, self.leader_epoch = leader, epoch
        self.source = leader if self.replica == NONE else self.replica


class FetchedPartition(FetchSource):
    """One assignment of a partition: the same partition that is assigned anew is another one."""

    __slots__ = ("ahead", "broken", "chunks", "doubt", "end_told", "epoch", "first", "high", "name", "packed",
                 "paused", "position", "retry_at", "stable", "topic_id")  # fmt: skip

    def __init__(
        self, name: TopicPartition, position: int, topic: TopicIdentity = UNKNOWN_TOPIC, *, packed: bool = False
    ) -> None:
        super().__init__()
        self.name = name
        #: Of the topic that the position belongs to; empty until it is known, for a position that came without.
        self.topic_id = topic.id_bytes
        #: Its records are taken packed.
        self.packed = packed
        #: The offset from which on it is to be fetched, or the client's number for where it begins or ends.
        self.position = position
        #: The leader's of the last record that was fetched; -1: unknown.
        self.epoch = -1
        self.chunks: deque[native.Chunk] = deque()
        self.paused = False
        #: How far it is with a broker that has said so, and is not believed at once.
        self.doubt = Doubt.NONE
        #: How often, one after the other, what came could not be read, and lay beyond where the log ends.
        self.broken = self.ahead = 0
        #: Not to be asked for before, in monotonic seconds.
        self.retry_at = 0.0
        #: The offsets that the broker reports: the first one, the one after the last record, and the one after the last
        #: record that is known to be committed or aborted. -1: unknown.
        self.first = self.high = self.stable = -1
        #: The position that the broker reported to be the end.
        self.end_told = -1

    @property
    def lost(self) -> bool:
        """The broker does not have the offset that was to be fetched."""
        return self.doubt is Doubt.LOST

    @property
    def replaced(self) -> bool:
        """The name of its topic stands for another one by now."""
        return self.doubt is Doubt.REPLACED

    @property
    def ended(self) -> bool:
        """True if nothing more is fetched of it."""
        return self.doubt in _ENDED

    @property
    def next(self) -> int:
        """The offset after the records that were taken."""
        return self.chunks[0].position if self.chunks else self.position

    def note_ends(self, first: int, high: int, stable: int) -> None:
        """A broker has reported its offsets. A follower may be behind: the ends that the leader reported hold."""
        if self.is_followed:
            high, stable = max(high, self.high), max(stable, self.stable)
        self.first, self.high, self.stable = first, high, stable

    def is_wanted(self, now: float) -> bool:
        """Return whether to ask for more of it."""
        return not (self.paused or self.doubt in _ENDED or len(self.chunks) >= _AHEAD or now < self.retry_at)

    def add(self, chunk: native.Chunk) -> None:
        """Records of it have come."""
        self.ahead = 0
        self.chunks.append(chunk)
        self.position = chunk.end_position
        self.epoch = chunk.epoch

    def take(self, limit: int, into: Fetched) -> int:
        """Take the next records, and return their number: 0 if nothing is left, or if all of it is of no use. Raises
        ``ValueError`` if the next batch cannot be read."""
        while self.chunks:
            chunk = self.chunks[0]
            before = chunk.opened
            records = chunk.take_packed(limit) if self.packed else chunk.take(limit)
            into.opened += chunk.opened - before
            if len(records) < limit and chunk.position == chunk.end_position:
                self.chunks.popleft()
            if records:
                self.broken = 0
                if isinstance(records, list):
                    into.records.append((self.name, records))
                else:
                    into.packed.append((self.name, records))
                return len(records)
        return 0

    @property
    def holds(self) -> int:
        """Bytes of the batch that was taken in part."""
        chunk = self.chunks[0] if self.chunks else None
        return 0 if chunk is None or not chunk.left else chunk.open_bytes

    def begin_again(self) -> None:
        """Forget the fetched records that were not taken: they cannot be read."""
        if self.chunks:
            self.position = self.next
            self.epoch = -1
            self.chunks.clear()
        if not self.ended:
            self.doubt = Doubt.NONE
        self.broken += 1

    def is_lost(self, until: float) -> bool:
        """A broker does not have the offset that was to be fetched: returns whether that is so. It is not believed at
        first: no broker is asked ``until`` then, and afterwards the partition's leader is."""
        if self.doubt is Doubt.ASKS:
            self.doubt = Doubt.LOST
        else:
            self.doubt, self.retry_at = Doubt.PAUSES, until
        return self.lost

    def has_more(self, *, committed_only: bool) -> bool:
        """Return whether there is something to be taken, or the broker has reported more than was taken."""
        return bool(self.chunks) or self.position < (self.stable if committed_only else self.high)

    def reached_end(self, *, committed_only: bool) -> bool:
        """Return whether all was taken, for the first time since there was more. The caller has to report it."""
        end = self.stable if committed_only else self.high
        if self.chunks or not 0 <= end <= self.position or self.end_told == self.position:
            return False
        self.end_told = self.position
        return True
