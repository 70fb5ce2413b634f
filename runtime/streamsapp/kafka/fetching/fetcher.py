"""Fetches whole record batches of assigned partitions from brokers, and makes records of them as they are taken. It is
the runtime's own client, as a consumer has it.

Used by ``PartitionConsumer`` on its thread; it goes on by itself when brokers are away or leaders move. That thread
reads the sockets, too: nothing is handed from thread to thread. A broker is asked for more only when records are
wanted. ``asking`` sends requests, ``answers`` takes what comes, and ``assignment`` knows the broker that each partition
is asked of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from streamsapp.brokers.link import Background, on_a_thread
from streamsapp.clock import Clock, SystemClock
from streamsapp.errors import OversizedBatchError, StreamsError
from streamsapp.kafka.fetching.answers import FetchAnswers
from streamsapp.kafka.fetching.asking import FetchRequests
from streamsapp.kafka.fetching.assignment import FetchAssignment
from streamsapp.kafka.fetching.broker import TooOldError
from streamsapp.kafka.fetching.broker_connections import BrokerConnections
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Confirmation, Fetched, Topics
from streamsapp.kafka.fetching.leaders import Describe, Leaders
from streamsapp.kafka.fetching.partition import FetchedPartition
from streamsapp.kafka.fetching.settings import FetchSettings
from streamsapp.kafka.rest import FEW
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.record import TopicPartition

#: Bytes of a batch that is not taken wholly, with which its partition comes first.
_LARGE = 1 << 20


class Fetcher:
    """A ``ConsumerClient``. Its connections use renewed certificates and credentials by themselves."""

    def __init__(
        self,
        settings: FetchSettings,
        describe: Describe,
        wakeup: Wakeup | None,
        clock: Clock | None = None,
        background: Background = on_a_thread,
    ) -> None:
        """A ``wakeup`` that is given ends a wait for records when other threads notify it. Tests give a clock, and what
        makes calls that may take their time."""
        self._settings = settings
        self._may_be_interrupted = wakeup is not None
        self._wakeup = wakeup or Wakeup()
        self._now = (clock or SystemClock()).monotonic
        leaders = Leaders(describe, self._wakeup.notify, self._now, background)
        self._assignment = FetchAssignment(leaders, settings.metadata_age, self._now)
        self._connections = BrokerConnections(settings, self._wakeup, self._now, background)
        #: Partitions that are asked for while little of them waits, and not delivered.
        self._held: set[TopicPartition] = set()
        self._asking = FetchRequests(settings, self._assignment, self._connections)
        self._answers = FetchAnswers(settings, self._assignment, self._connections)

    # ---- assignment --------------------------------------------------------------------------------------------

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Topics = NO_TOPICS,
    ) -> None:
        self._assignment.add(positions, packed, topics)
        with suppress(StreamsError):  # it is met again where records are wanted
            self._assignment.find_sources()  # at once: it takes a moment

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        partitions = list(partitions)
        self._assignment.remove(partitions)
        self._held.difference_update(partitions)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self._assignment.partitions[each].paused = True

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        self._held.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self._assignment.partitions[each].paused = False
            self._held.discard(each)

    def expect_partitions(self, seconds: float) -> None:
        self._asking.short_until = self._now() + seconds

    def watermarks(self, partition: TopicPartition) -> tuple[int, int] | None:
        found = self._assignment.partitions.get(partition)
        return None if found is None or found.high < 0 else (max(found.first, 0), found.high)

    def close(self) -> None:
        self._connections.close()

    def confirm(self) -> Confirmation:
        return list  # requests name topics by their ids: no record is of another one

    def doubts(self, topic: str) -> bool:
        return False

    # ---- fetching ----------------------------------------------------------------------------------------------

    def fetch(self, limit: int, timeout: float, *, at_once: bool = False) -> Fetched:
        """Raises ``TopicError`` for a topic that is gone or may not be read, and ``StreamsError`` for records that
        cannot be read. ``TooOldError``, a ``StreamsError`` too, is for brokers and records that only librdkafka
        knows."""
        give_up = self._now() + timeout
        if at_once:
            return self._fetch_at_once(limit, give_up)
        # Also without a wait: what is taken now is not to end the next one.
        interrupted = self._is_interrupted(0)
        while True:
            self._answers.receive()
            fetched = self._take(limit)
            if fetched:
                # Where much comes, more is asked for at once; where little comes, only when it is wanted.
                if fetched.count >= FEW:
                    with suppress(StreamsError):  # it is met again, when these are delivered
                        self._asking.ask()
                return fetched
            pause = self._asking.ask()
            left = give_up - self._now()
            if interrupted or left <= 0:
                return fetched
            interrupted = self._is_interrupted(min(left, pause))

    def _fetch_at_once(self, limit: int, give_up: float) -> Fetched:
        """Returns the records that are there once each broker that can be reached has said what it has now. A broker
        that has been asked already, and waits for records, has none."""
        self._answers.receive()
        before = self._connections.busy()
        self._asking.ask(at_once=True)
        asked = [each for each in self._connections.busy() if each not in before]
        while (owing := any(each.asked is not None for each in asked)) and (left := give_up - self._now()) > 0:
            self._wakeup.wait(left)
            self._answers.receive()
        fetched = self._take(limit)
        fetched.more = fetched.more or owing
        return fetched

    def _is_interrupted(self, timeout: float) -> bool:
        """Wait for something to happen; returns whether it concerns another part than a fetcher. Answers without
        records do not, and they end no wait of the fetcher's caller."""
        return self._wakeup.wait(timeout) and self._may_be_interrupted

    def _take(self, limit: int) -> Fetched:
        fetched, news = Fetched(), self._assignment.news
        for name, partition in list(news.items()):
            if limit <= 0 or fetched.opened >= self._settings.most_opened:
                break
            if partition.paused or name in self._held:
                continue
            del news[name]
            try:
                limit -= self._take_from(partition, limit, fetched)
            except StreamsError:
                if not fetched:
                    raise
                self._assignment.put_first(partition)  # met again at once, when the others are delivered
                break
            if partition.holds >= _LARGE:
                self._assignment.put_first(partition)  # or each of many would keep such a batch
            elif partition.chunks:
                news[name] = partition  # the others come first then
            fetched.more = fetched.more or partition.has_more(committed_only=self._settings.committed_only)
        return fetched

    def _take_from(self, partition: FetchedPartition, limit: int, fetched: Fetched) -> int:
        """Take records of a partition, and its other news."""
        taken = 0
        try:
            most = self._settings.most_opened
            while taken < limit and fetched.opened < most and (count := partition.take(limit - taken, fetched)):
                taken += count
        except NotImplementedError as error:
            raise TooOldError(f"{partition.name}, offset {partition.next}: {error}") from error
        except ValueError as error:
            self._answers.note_broken(partition, error)
        except OversizedBatchError as error:
            place = f"{partition.name}, offset {partition.next}"
            raise OversizedBatchError(f"{place}: the record batch there {error}") from error
        if partition.ended:
            if not partition.chunks:
                (fetched.replaced if partition.replaced else fetched.out_of_range).append(partition.name)
        elif self._settings.tells_ends and partition.reached_end(committed_only=self._settings.committed_only):
            fetched.ends[partition.name] = partition.position
        return taken
