"""Fetches whole record batches from the leaders of assigned partitions, and makes records of them as they are taken.

Used by ``PartitionConsumer`` on its thread, as ``librdkafka.fetching`` is, and like that one it goes on by itself when
brokers are away or leaders move. That thread reads the sockets, too: nothing is handed from thread to thread, and a
broker is asked for more when records are wanted and not before. There is one request at a time for each broker; it is
sent when an answer has come, and so is answered while that one is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError

from streamsapp import native
from streamsapp.brokers.bounds import WrongAnswerError, check_told
from streamsapp.brokers.errors import RefusedError
from streamsapp.errors import OversizedBatchError, StreamsError
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.fetching import requests
from streamsapp.kafka.fetching.broker import BrokerConnection, TooOldError
from streamsapp.kafka.fetching.broker_connections import BrokerConnections
from streamsapp.kafka.fetching.decompression import all_decompressed, decompressed
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Fetched, Topics, not_authorised
from streamsapp.kafka.fetching.leaders import Describe, Leaders
from streamsapp.kafka.fetching.partition import Doubt, FetchedPartition
from streamsapp.kafka.fetching.session import ENDED, Asked
from streamsapp.kafka.fetching.settings import FetchSettings
from streamsapp.kafka.producing.partitions import ELSEWHERE
from streamsapp.kafka.rest import FEW
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.record import UNKNOWN_TOPIC, TopicPartition

log = client_log(__name__)

#: How long an answer may take beyond the time for which a broker waits for records, and after how long it is looked
#: whether the leader is another one by now, in seconds.
_NO_ANSWER, _LATE = 30.0, 2.0
#: For which a broker waits for records while others of its partitions are not asked for, as there is enough of them.
_SHORT_WAIT = 0.005
#: A broker that stood still may lead a partition no more, and not have what its leader has. When it does not have what
#: was to be fetched, so many seconds pass until the leader is looked up, and asked as well.
_DOUBT = 1.0
#: How often a batch that cannot be read is fetched, after longer and longer pauses: it may be the network's fault.
_TRIES = 5

#: Bytes of a batch that is not taken wholly, with which its partition comes first.
_LARGE = 1 << 20

_MOVED = ELSEWHERE | {
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.INCONSISTENT_TOPIC_ID,
}
_WHICH = {OFFSET_BEGINNING: -2, OFFSET_END: -1}

#: Takes an answer, of the broker that leads what was asked.
_Take: TypeAlias = Callable[[int, BrokerConnection, Asked, bytearray], None]


class Fetcher:
    """Fetches from explicitly assigned partitions."""

    def __init__(
        self,
        settings: FetchSettings,
        describe: Describe,
        wakeup: Wakeup | None,
    ) -> None:
        """A ``wakeup`` that is given ends a wait for records when other threads notify it."""
        self._settings = settings
        self._decompressed = partial(
            decompressed if settings.has_handler else all_decompressed, most=settings.most_opened
        )
        self._may_be_interrupted = wakeup is not None
        self._wakeup = wakeup or Wakeup()
        self._leaders = Leaders(describe, self._wakeup.notify)
        self._partitions: dict[TopicPartition, FetchedPartition] = {}
        #: Those that have something to tell, the one that told least lately first.
        self._news: dict[TopicPartition, FetchedPartition] = {}
        self._connections = BrokerConnections(settings, self._wakeup)
        #: The partitions of each leader, as long as nothing has changed; those without one.
        self._led: dict[int, list[FetchedPartition]] = {}
        #: The names of topics whose partitions have a leader, by their ids.
        self._names: dict[bytes, str] = {}
        self._leaderless: set[TopicPartition] = set()
        self._changed = True

    # ---- assignment --------------------------------------------------------------------------------------------

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Topics = NO_TOPICS,
    ) -> None:
        for name, position in positions.items():
            topic = topics.get(name.topic, UNKNOWN_TOPIC)
            self._leaders.begin(name, topic)
            self._partitions[name] = FetchedPartition(name, position, topic, packed=name in packed)
        self._changed = True
        with suppress(StreamsError):  # it is met again where records are wanted
            self._find_leaders()  # at once: it takes a moment

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self._partitions.pop(each, None)
            self._news.pop(each, None)
        self._changed = True

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self._partitions[each].paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self._partitions[each].paused = False

    def watermarks(self, partition: TopicPartition) -> tuple[int, int] | None:
        found = self._partitions.get(partition)
        return None if found is None or found.high < 0 else (max(found.first, 0), found.high)

    def close(self) -> None:
        """Stop."""
        self._connections.close()

    @property
    def ended(self) -> bool:
        """True if no thread uses the client. It may take a moment."""
        return self._leaders.close()

    # ---- fetching ----------------------------------------------------------------------------------------------

    def fetch(self, limit: int, timeout: float) -> Fetched:
        """Raises ``TopicError`` for a topic that is gone or may not be read, ``StreamsError`` for records that cannot
        be read, and ``TooOldError``, which is one, for brokers and records that only librdkafka knows."""
        give_up = time.monotonic() + timeout
        # Also without a wait: what is taken now is not to end the next one.
        interrupted = self._is_interrupted(0)
        while True:
            self._receive()
            fetched = self._take(limit)
            if fetched:
                # More is asked for at once where much comes; what is little is asked for when it is wanted.
                if fetched.count >= FEW:
                    with suppress(StreamsError):  # it is met again, when these are delivered
                        self._ask()
                return fetched
            pause = self._ask()
            left = give_up - time.monotonic()
            if interrupted or left <= 0:
                return fetched
            interrupted = self._is_interrupted(min(left, pause))

    def fetch_all(self, limit: int, timeout: float) -> Fetched:
        """As ``fetch``, once each broker that can be reached has told what it has now, or after ``timeout`` seconds.
        One that has been asked already, and waits for records, has none."""
        give_up = time.monotonic() + timeout
        self._receive()
        asked = self._connections.free()
        self._ask(at_once=True)
        while (owing := any(broker.asked is not None for broker in asked)) and (left := give_up - time.monotonic()) > 0:
            self._wakeup.wait(left)
            self._receive()
        fetched = self._take(limit)
        fetched.more = fetched.more or owing
        return fetched

    def _is_interrupted(self, timeout: float) -> bool:
        """Wait for something to happen; returns whether it is for somebody else than a fetcher: answers without records
        are not, and end no wait of its caller's."""
        return self._wakeup.wait(timeout) and self._may_be_interrupted

    def _take(self, limit: int) -> Fetched:
        fetched = Fetched()
        for name, partition in list(self._news.items()):
            if limit <= 0 or fetched.opened >= self._settings.most_opened:
                break
            if partition.paused:
                continue
            del self._news[name]
            try:
                limit -= self._take_from(partition, limit, fetched)
            except StreamsError:
                if not fetched:
                    raise
                self._news = {name: partition, **self._news}  # met again at once, when the others are delivered
                break
            if partition.holds >= _LARGE:
                self._news = {name: partition, **self._news}  # or each of many would keep such a batch
            elif partition.chunks:
                self._news[name] = partition  # the others come first then
            fetched.more = fetched.more or partition.has_more(committed_only=self._settings.committed_only)
        return fetched

    def _take_from(self, partition: FetchedPartition, limit: int, fetched: Fetched) -> int:
        """Take records of a partition, and what else it has to tell."""
        taken = 0
        try:
            most = self._settings.most_opened
            while taken < limit and fetched.opened < most and (count := partition.take(limit - taken, fetched)):
                taken += count
        except NotImplementedError as error:
            raise TooOldError(f"{partition.name}, offset {partition.next}: {error}") from error
        except ValueError as error:
            self._note_broken(partition, error)
        except OversizedBatchError as error:
            place = f"{partition.name}, offset {partition.next}"
            raise OversizedBatchError(f"{place}: the record batch there {error}") from error
        if partition.ended:
            if not partition.chunks:
                (fetched.replaced if partition.replaced else fetched.out_of_range).append(partition.name)
        elif self._settings.tells_ends and partition.reached_end(committed_only=self._settings.committed_only):
            fetched.ends[partition.name] = partition.position
        return taken

    # ---- asking ------------------------------------------------------------------------------------------------

    def _ask(self, *, at_once: bool = False) -> float:
        """Ask each broker that is free for what is wanted of it, which is to be told ``at_once`` also if it is nothing;
        returns the seconds until it makes sense to look again."""
        pause = self._find_leaders()
        for leader, partitions in self._led.items():
            pause = min(pause, self._ask_leader(leader, partitions, at_once=at_once))
        return pause

    def _ask_leader(self, leader: int, partitions: list[FetchedPartition], *, at_once: bool) -> float:
        broker = self._connections.to(leader, self._leaders.address(leader))
        if broker is None:
            return self._settings.reaching.first_pause
        if broker.asked is not None:
            return _LATE
        now = time.monotonic()
        if now < broker.times.not_before:
            return broker.times.not_before - now
        wanted = [each for each in partitions if each.is_wanted(now)]
        doubted = [each for each in wanted if each.doubt is Doubt.PAUSES]
        for each in doubted:
            each.doubt = Doubt.ASKS
            self._forget_leader(each)
        if doubted:
            return 0.0
        if not wanted:
            return min((each.retry_at - now for each in partitions if each.retry_at > now), default=_LATE)
        without_offset = [each for each in wanted if each.position < 0]
        try:
            if without_offset:
                self._ask_for_offsets(broker, without_offset)
            else:
                self._ask_for_records(leader, broker, wanted, at_once=at_once)
        except OSError as error:
            self._lose(leader, error)
        return _LATE

    def _ask_for_offsets(self, broker: BrokerConnection, wanted: list[FetchedPartition]) -> None:
        asked: Asked = {each.name: (each, each.position, -1) for each in wanted}
        take: _Take = self._take_offsets
        request = requests.list_offsets(self._settings, ((each.name, _WHICH[each.position]) for each in wanted))
        broker.ask(request, (take, asked))

    def _ask_for_records(
        self, leader: int, broker: BrokerConnection, wanted: list[FetchedPartition], *, at_once: bool
    ) -> None:
        session = broker.session
        # Most of what an instance costs that has nothing to do is asking for records.
        waits = 0.0 if at_once else self._settings.wait * (2 if session.has_nothing else 1)
        if any(
            each.chunks and not each.paused and self._leaders.of(name) == leader for name, each in self._news.items()
        ):
            waits = min(waits, _SHORT_WAIT)
        begin = broker.requests % len(wanted)  # or the first ones would have all of an answer
        each = self._settings.of_each(len(self._partitions))
        named, forgotten = session.ask(wanted[begin:] + wanted[:begin], each)
        take: _Take = self._take_parts
        broker.ask(requests.fetch(self._settings, session, named, forgotten, waits, each), (take, session.asked), waits)

    # ---- answers -----------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Take the answers that are there."""
        for leader, broker in self._connections.with_something_to_read():
            try:
                if (answer := broker.receive()) is not None:
                    self._take_answer(leader, broker, answer)
            except (OSError, ValueError) as error:
                self._lose(leader, error)
        for leader, failure in self._connections.failed():
            if isinstance(failure, TooOldError):
                raise failure
            if isinstance(failure, RefusedError) and not self._connections.answered:
                raise StreamsError(str(failure)) from failure  # later on credentials may be renewed meanwhile
            self._lose(leader, failure)
        for leader, broker in self._connections.late(min(_LATE, self._settings.reaching.answer)):
            self._look_for_others(leader, broker)

    def _take_answer(self, leader: int, broker: BrokerConnection, answer: bytearray) -> None:
        take: _Take
        (take, asked), broker.asked = broker.asked, None
        take(leader, broker, asked, answer)

    def _take_offsets(self, leader: int, broker: BrokerConnection, asked: Asked, answer: bytearray) -> None:
        throttled, offsets = requests.offsets(answer, asked)
        broker.times.leave_alone(throttled, broker)
        self._connections.well(leader)
        for name, code, offset in offsets:
            if (partition := self._asked_of(leader, asked, name)) is not None:
                if code:
                    self._note_error(partition, code)
                else:
                    partition.position = offset

    def _take_parts(self, leader: int, broker: BrokerConnection, asked: Asked, answer: bytearray) -> None:
        fetched = native.answer(answer)
        broker.times.leave_alone(fetched.throttle_ms, broker)
        if fetched.error in ENDED and broker.session.kept:
            broker.session.refused(fetched.error)
            return
        if fetched.error:
            raise ConnectionError(KafkaError(fetched.error).str())
        parts = fetched.parts
        told = [TopicPartition(self._names.get(part.topic_id, ""), part.partition) for part in parts]
        known = [name for name in told if name.topic]  # others were made anew meanwhile
        if not asked.keys() >= set(known) or len(set(known)) < len(known):
            check_told("Fetch", set(known) & asked.keys(), known)  # what it leaves out, it has nothing to tell of
        broker.session.answered(fetched.session)
        broker.session.has_nothing = all(part.begin == part.end for part in parts)
        broker.times.told(anything=any(part.error or part.diverging or part.begin < part.end for part in parts))
        for name, part in zip(told, parts, strict=True):
            if (partition := self._asked_of(leader, asked, name)) is not None and partition.topic_id == part.topic_id:
                if part.error:
                    self._note_error(partition, part.error)
                else:
                    self._take_records(partition, answer, part)
        self._connections.well(leader)

    def _asked_of(self, leader: int, asked: Asked, name: TopicPartition) -> FetchedPartition | None:
        """The partition of which a part of an answer tells, unless it was assigned anew, has another leader by now, or
        what was asked came from another one."""
        partition, position, _ = asked.get(name, (None, 0, 0))
        if partition is None or self._partitions.get(name) is not partition or partition.ended:
            return None
        if partition.position != position:
            return None
        return partition if self._leaders.of(name) == leader else None

    def _take_records(self, partition: FetchedPartition, answer: bytearray, part: native.FetchedPart) -> None:
        if part.diverging:
            self._note_loss(partition, "what was read last is not in the log any more: it was truncated")
            return
        partition.doubt = Doubt.NONE
        if part.end > part.begin:
            data: memoryview | bytes = memoryview(answer)[part.begin : part.end]
            if len(data) < len(answer) // 2:  # or a little of it would keep all of it
                data = bytes(data)
            try:
                log_end = part.stable if self._settings.committed_only else part.high
                self._add(partition, data, part.aborted, log_end)
            except ValueError as error:
                if not partition.chunks:  # or those are taken first
                    self._note_broken(partition, error)
                raise WrongAnswerError(f"{partition.name}: {error}") from error
        partition.high, partition.stable, partition.first = part.high, part.stable, part.first
        self._news[partition.name] = partition

    def _add(
        self, partition: FetchedPartition, data: bytes | memoryview, aborted: list[tuple[int, int]], log_end: int
    ) -> None:
        """Take record batches of a partition, up to where its log ends. Raises ``ValueError`` for what cannot be a part
        of it."""
        settings = self._settings
        try:
            chunk = native.Chunk(
                topic=partition.name.topic,
                partition=partition.name.partition,
                data=data,
                position=partition.position,
                aborted=aborted if settings.committed_only else [],
                decompress=self._decompressed,
                unchecked=not settings.checked,
                log_end=log_end,
                most=settings.most_opened,
            )
        except NotImplementedError as error:
            raise TooOldError(f"{partition.name}, offset {partition.position}: {error}") from error
        if chunk.end_position > partition.position:
            partition.add(chunk)
            return
        # A broker looks where its log ends before it reads, and may have got more meanwhile: once.
        partition.ahead += 1
        if partition.ahead > 1:
            raise ValueError(f"its batches after offset {partition.position} lie beyond {log_end}, where the log ends")

    # ---- what goes wrong ---------------------------------------------------------------------------------------

    def _note_error(self, partition: FetchedPartition, code: int) -> None:
        if code == KafkaError.OFFSET_OUT_OF_RANGE:
            self._note_loss(partition, "what was to be fetched is not in the log")
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise not_authorised(partition.name, KafkaError(code).str())
        else:
            partition.retry_at = time.monotonic() + self._settings.backoff
            if code in _MOVED:
                self._forget_leader(partition)
            else:
                log.warning("%s: %s (goes on by itself)", partition.name, KafkaError(code).str())

    def _note_loss(self, partition: FetchedPartition, what: str) -> None:
        """A broker does not have what was to be fetched, which is believed when its leader is asked anew."""
        if partition.is_lost(time.monotonic() + max(_DOUBT, self._settings.backoff)):
            self._news[partition.name] = partition
        log.info("%s: %s%s", partition.name, what, "" if partition.lost else "; its leader is asked once more")

    def _note_broken(self, partition: FetchedPartition, error: ValueError) -> None:
        partition.begin_again()
        if partition.broken >= _TRIES:
            raise StreamsError(
                f"{partition.name} cannot be read: {error}; {self._source(partition)} sent it {_TRIES} times. Look at"
                " the topic's segments there with kafka-dump-log.sh, and at what is between it and this instance"
            ) from error
        log.warning("%s: %s (fetching it again from %s)", partition.name, error, self._source(partition))
        partition.retry_at = time.monotonic() + self._settings.backoff * 2 ** (partition.broken - 1)

    def _source(self, partition: FetchedPartition) -> str:
        leader = self._leaders.of(partition.name)
        return "its leader" if leader is None else "broker {} at {}:{}".format(leader, *self._leaders.address(leader))

    # ---- leaders -----------------------------------------------------------------------------------------------

    def _find_leaders(self) -> float:
        """Sort the partitions by their leaders, and look for those that are not known; returns the seconds until it
        makes sense to look again."""
        if self._changed or self._leaders.changed:
            self._changed = self._leaders.changed = False
            missing, self._led, self._leaderless, self._names = self._leaderless, {}, set(), {}
            for partition in self._partitions.values():
                leader = self._leaders.of(partition.name)
                if leader is None or not self._leaders.topic(partition.name.topic).topic_id:
                    self._leaderless.add(partition.name)
                elif self._is_of_its_topic(partition):
                    self._led.setdefault(leader, []).append(partition)
                    self._names[partition.topic_id] = partition.name.topic
            if missing and not self._leaderless:
                self._leaders.found_all()
        self._leaders.refresh(self._partitions, self._settings.metadata_age)
        return self._leaders.look_up(self._leaderless) if self._leaderless else _LATE

    def _is_of_its_topic(self, partition: FetchedPartition) -> bool:
        """Return whether a partition's name still stands for the topic that its position belongs to."""
        found = self._leaders.topic(partition.name.topic).id_bytes
        partition.topic_id = partition.topic_id or found
        if partition.topic_id != found and not partition.replaced:
            partition.doubt = Doubt.REPLACED
            self._news[partition.name] = partition
        return not partition.replaced

    def _forget_leader(self, partition: FetchedPartition) -> None:
        self._leaders.forget(partition.name)
        self._changed = True

    def _look_for_others(self, leader: int, broker: BrokerConnection) -> None:
        """A broker is late: perhaps it stands still, and its partitions have other leaders by now."""
        led = self._led.get(leader, [])
        if broker.late > min(_NO_ANSWER, self._settings.reaching.answer):
            self._lose(leader, ConnectionError("it does not answer"))
        elif led:
            self._leaders.look_up({each.name for each in led})
        else:
            self._lose(leader, ConnectionError("it does not answer, and leads nothing any more"))

    def _lose(self, leader: int, error: Exception) -> None:
        """Forget a broker until it is tried again, and look for other leaders."""
        self._connections.lose(leader, error)
        for partition in self._led.get(leader, ()):
            self._forget_leader(partition)
