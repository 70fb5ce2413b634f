"""The partitions of a fetcher, the broker that serves each, and the ones with records or news to deliver.

Used on the thread that a consumer belongs to. The leader of a partition is asked, unless it names a follower that is
nearer to this client (KIP-392). A follower that fails is left: the leader answers itself for a while then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.described import NONE
from streamsapp.kafka.fetching.fetched import Topics
from streamsapp.kafka.fetching.leaders import Leaders
from streamsapp.kafka.fetching.partition import Doubt, FetchedPartition
from streamsapp.kafka.fetching.session import Asked
from streamsapp.record import UNKNOWN_TOPIC, TopicPartition

log = client_log(__name__)

#: When it is looked again where nothing is to be done, in seconds.
_IDLE = 2.0
#: After a follower has failed its leader names no other one for so many seconds: it learns late that one is gone.
STAY = 10.0


class FetchAssignment:
    """The partitions by the brokers that are asked."""

    def __init__(self, leaders: Leaders, age: float, now: Callable[[], float]) -> None:
        """A follower is asked for ``age`` seconds, and leaders are looked up as often."""
        self._age = age
        self.now = now
        self._leaders = leaders
        self.partitions: dict[TopicPartition, FetchedPartition] = {}
        #: Partitions that have something to report; the partition whose last report is the oldest comes first.
        self.news: dict[TopicPartition, FetchedPartition] = {}
        #: The partitions to ask of each broker, as long as nothing has changed.
        self.by_source: dict[int, list[FetchedPartition]] = {}
        #: The names of topics whose partitions have a leader, by their ids.
        self._names: dict[bytes, str] = {}
        self._leaderless: set[TopicPartition] = set()
        self._changed = True
        #: When the first partition goes back from a follower to its leader, in monotonic seconds.
        self._return_at = math.inf
        #: Leaders that are to name no follower before.
        self._stays: dict[int, float] = {}

    def add(self, positions: Mapping[TopicPartition, int], packed: Collection[TopicPartition], topics: Topics) -> None:
        for name, position in positions.items():
            topic = topics.get(name.topic, UNKNOWN_TOPIC)
            self._leaders.begin(name, topic)
            self.partitions[name] = FetchedPartition(name, position, topic, packed=name in packed)
        self._changed = True

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self.partitions.pop(each, None)
            self.news.pop(each, None)
        self._changed = True

    def put_first(self, partition: FetchedPartition) -> None:
        """It reports more before the others do."""
        others = [each for each in self.news.items() if each[1] is not partition]
        self.news.clear()
        self.news[partition.name] = partition
        self.news.update(others)

    # ---- whom to ask -------------------------------------------------------------------------------------------

    def find_sources(self) -> float:
        """Sort the partitions by the brokers to ask, and look for leaders that are not known. Returns the seconds until
        it makes sense to look again. Raises as ``Leaders.look_up`` does."""
        now = self.now()
        if self._changed or self._leaders.changed or now >= self._return_at:
            self._changed = self._leaders.changed = False
            self._sort(now)
        self._leaders.refresh(self.partitions, self._age)
        return self._leaders.look_up(self._leaderless) if self._leaderless else _IDLE

    def _sort(self, now: float) -> None:
        missing, self.by_source, self._leaderless, self._names = self._leaderless, {}, set(), {}
        self._return_at = math.inf
        for partition in self.partitions.values():
            leader = self._leaders.of(partition.name)
            if leader is None or not self._leaders.topic(partition.name.topic).topic_id:
                partition.source = NONE
                self._leaderless.add(partition.name)
            elif self._is_of_its_topic(partition):
                partition.led_by(leader, self._leaders.epoch(partition.name), now)
                if partition.is_followed:
                    self._return_at = min(self._return_at, partition.replica_until)
                self.by_source.setdefault(partition.source, []).append(partition)
                self._names[partition.topic_id] = partition.name.topic
        if missing and not self._leaderless:
            self._leaders.found_all()

    def _is_of_its_topic(self, partition: FetchedPartition) -> bool:
        """Return whether a partition's name still stands for the topic that its position belongs to."""
        found = self._leaders.topic(partition.name.topic).id_bytes
        partition.topic_id = partition.topic_id or found
        if partition.topic_id != found and not partition.replaced:
            partition.doubt = Doubt.REPLACED
            self.news[partition.name] = partition
        return not partition.replaced

    def address(self, source: int) -> tuple[str, int]:
        """The host and the port of a broker that is asked."""
        return self._leaders.address(source)

    def place(self, partition: FetchedPartition) -> str:
        """The broker that is asked for a partition, for messages."""
        source = partition.source
        return "its leader" if source == NONE else "broker {} at {}:{}".format(source, *self.address(source))

    def stays(self, source: int) -> bool:
        """Return whether this leader is to answer itself, and name no follower."""
        return source in self._stays and self.now() < self._stays[source]

    # ---- answers -----------------------------------------------------------------------------------------------

    def name(self, topic_id: bytes, number: int) -> TopicPartition:
        """The partition of a topic with this id; the topic's name is empty if it is not fetched any more."""
        return TopicPartition(self._names.get(topic_id, ""), number)

    def asked_of(self, source: int, asked: Asked, name: TopicPartition) -> FetchedPartition | None:
        """The partition of a part of an answer; ``None`` if it was assigned anew, or another broker serves it now."""
        partition, position = asked[name][:2] if name in asked else (None, 0)
        if partition is None or self.partitions.get(name) is not partition or partition.ended:
            return None
        return partition if partition.position == position and partition.source == source else None

    # ---- what changes ------------------------------------------------------------------------------------------

    def follow(self, partition: FetchedPartition, replica: int) -> None:
        """Ask this follower for a while, as the leader wants it.

        A follower that is not known yet may be found by then.
        """
        if partition.source != partition.leader or replica == partition.leader:
            return
        if not self._leaders.knows(replica):
            self._stays[partition.leader] = self.now() + STAY
            self.forget_leader(partition)
            return
        log.debug("%s: broker %d is asked, as its leader %d wants it", partition.name, replica, partition.leader)
        partition.replica, partition.replica_until = replica, self.now() + self._age
        self._changed = True

    def return_to_leader(self, partition: FetchedPartition) -> None:
        """The follower that is asked has failed."""
        log.info("%s: its leader %d is asked, and not %s", partition.name, partition.leader, self.place(partition))
        self._stays[partition.leader] = self.now() + STAY
        partition.replica = partition.source = NONE
        self._changed = True

    def forget_leader(self, partition: FetchedPartition) -> None:
        """Look up its leader."""
        self._leaders.forget(partition.name)
        partition.source = NONE
        self._changed = True

    def lost(self, source: int) -> None:
        """A broker cannot be reached: leaders are asked for what it follows, and others may lead the rest."""
        for partition in self.by_source.get(source, ()):
            if partition.is_followed:
                self.return_to_leader(partition)
            elif partition.source == source:
                self.forget_leader(partition)

    def others_for(self, source: int) -> bool:
        """A broker is late, and others may lead its partitions by now, which is looked up. Returns whether it leads
        any."""
        partitions = self.by_source.get(source, ())
        for partition in partitions:
            if partition.is_followed:
                self.return_to_leader(partition)
        led = {each.name for each in partitions if each.leader == source}
        if led:
            self._leaders.look_up(led)
        return bool(led)
