"""Sends what waits in the outbox, a request per broker at a time, and takes the answers.

Runs on the thread of the producer's connection; the producer's own thread calls what says so. A broker that has just
been asked is asked again when ``linger.ms`` have passed, or at once when much waits. So a record that comes alone is
sent as it comes, and many records share requests. The records of a transaction wait for as long even if they come
alone, unless a commit waits for them. Each broker that has something to do has a coroutine; it ends with its work.
"""

from __future__ import annotations

import logging
from functools import partial

from confluent_kafka import KafkaError

from streamsapp import native
from streamsapp.brokers.bounds import throttle
from streamsapp.brokers.connection import Connection, Node
from streamsapp.brokers.errors import UnreachableError
from streamsapp.brokers.event_loop import WakeUp
from streamsapp.kafka.producing import wire
from streamsapp.kafka.producing.partitions import ELSEWHERE, Partition, RecordBatch, Verdict, verdict
from streamsapp.kafka.producing.produce import NO_REASONS, ProduceAnswer, ProduceRequest, Reasons
from streamsapp.kafka.producing.progress import Progress
from streamsapp.kafka.producing.settings import BatchSettings
from streamsapp.kafka.producing.splitting import batch_of, divided, raw, records_of
from streamsapp.kafka.producing.topics import Topics
from streamsapp.kafka.producing.transaction import Transaction
from streamsapp.record import RawRecord

log = logging.getLogger(__name__)

#: Seconds between two looks at waiting records, and between two where none wait.
_LOOK, _REST = 0.5, 300.0
#: How much longer than a broker may take to replicate records its answer is waited for, in seconds.
_GRACE = 10.0
#: How long brokers may refuse the credentials, in seconds.
_REFUSED_FOR = 10.0
#: Bytes of a request, unless a single batch has more.
_REQUEST_SIZE = 8 << 20

#: Among a batch's attributes.
_TRANSACTIONAL = 0x10
#: Ends with a known cause beyond the fact that the brokers and this producer no longer agree.
_KNOWN = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
_NO_ANSWER = ProduceAnswer({}, 0, {}, {})
#: Stands for all records, where none is at fault.
_NO_RECORD = RawRecord("", -1, -1, None, None, -1)


class _Broker:
    """A broker, and the partitions that have something for it."""

    def __init__(self, wake: WakeUp) -> None:
        self.wake = wake
        #: Partitions with nothing on its way; the partition that waits longest comes first.
        self.due: dict[wire.Name, Partition] = {}
        #: Says whether a coroutine works for it, and whether that waits for more records.
        self.served = False
        self.lingers = False
        self.asked_at = 0.0
        #: Not to be asked before, in monotonic seconds: its connection takes nothing, and would be asked in vain.
        self.not_before = 0.0


class Sender:
    """The way of a producer's records to the brokers."""

    def __init__(
        self,
        outbox: native.Outbox,
        settings: BatchSettings,
        connection: Connection,
        transaction: Transaction,
        progress: Progress,
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._connection = connection
        self._transaction = transaction
        self.topics = Topics(connection, outbox.add_topic, settings.metadata_age)
        self._partitions: dict[wire.Name, Partition] = {}
        self._brokers: dict[Node, _Broker] = {}
        #: Partitions that have something to send but no known leader, or that have to wait before they try again.
        self._stuck: dict[wire.Name, Partition] = {}
        self._watch = connection.wake_up()
        #: Wakes the end of a transaction that waits for records.
        self._told = connection.wake_up()
        #: Says whether no thread looks at the time.
        self._rests = False
        #: Says whether a thread looks into the outbox before long, without being asked to.
        self._looks = False
        self._hurry = False
        self._ended = False
        self.progress = progress

    # ---- the producer's thread ---------------------------------------------------------------------------------

    def notice(self) -> None:
        """There is more in the outbox, and no more follows at once."""
        if not self._looks:
            if self._outbox.waits():
                self._looks = True
                self._connection.spawn(self._look)
        elif self._much:
            self._wake_lingering()

    def notice_much(self) -> None:
        """There is more in the outbox, and more follows: it is worth a look if it is much."""
        if self._much:
            self.notice()

    @property
    def _much(self) -> bool:
        return self._outbox.bytes >= self._settings.batch_size

    def want(self, topic: str) -> None:
        """Ask for the partitions of a topic."""
        self.topics.want(topic)
        self._watch.notify()

    def hurry(self) -> None:
        """Send at once all that waits: a caller waits for the last of it."""
        if not self._hurry:
            self._hurry = True
            self._wake_lingering()
        self.notice()

    def _wake_lingering(self) -> None:
        for broker in list(self._brokers.values()):
            if broker.lingers:
                broker.lingers = False
                broker.wake.notify()

    @property
    def failed(self) -> bool:
        """True if nothing is sent any more."""
        return self._ended

    def end(self) -> None:
        """Send nothing any more. Any thread."""
        self._ended = True
        self._watch.notify()
        self._told.notify()

    # ---- the connection's thread -------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """True if a broker has not answered yet."""
        return any(broker.served and not broker.lingers for broker in self._brokers.values())

    def hurry_here(self) -> None:
        """As ``hurry``, on the connection's thread, which needs not be woken."""
        self._hurry = True
        for broker in self._brokers.values():
            if broker.lingers:
                broker.lingers = False
                broker.wake.notify_here()
        self._collect()

    async def written(self, failures: int) -> bool:
        """Return when all records are acknowledged, and say so; or that one more than so many cannot be written."""
        progress = self.progress
        while (well := not self._ended and progress.failed <= failures) and progress.finished < self._outbox.added:
            await self._told.wait()
        return well

    def _tell(self) -> None:
        self.progress.tell()
        self._told.notify_here()

    async def watch(self) -> None:
        """Ask for topics, and look after waiting records, until the end."""
        try:
            while not self._ended:
                if self.topics.due_in(self._connection.now()) == 0.0:
                    await self.topics.refresh(self._connection.now())
                    self._check_credentials(self._connection.now())
                    self._tell()
                self._collect()
                self._look_after(self._connection.now())
                await self._watch.wait(self._watch_again_in())
        except Exception as error:
            self._broken(error)

    def _look_after(self, now: float) -> None:
        for one in [*self._stuck.values(), *self._waiting()]:
            self._check_time(one, now)
        for one in list(self._stuck.values()):
            if one.not_before <= now and self.topics.leader(one.name) is not None:
                del self._stuck[one.name]
                self._queue(one)

    def _broken(self, error: Exception) -> None:
        log.error("sending records failed", exc_info=error)
        self.lose(KafkaError._STATE, f"sending records failed: {error}")

    def _watch_again_in(self) -> float:
        now = self._connection.now()
        self._rests = not (self._stuck or any(broker.served for broker in self._brokers.values()))
        soonest = min(
            [
                _REST if self._rests else _LOOK,
                *(each.not_before - now for each in self._stuck.values() if each.not_before > now),
            ]
        )
        return min(soonest, self.topics.due_in(now)) if self.topics.wanted else soonest

    def _waiting(self) -> list[Partition]:
        return [each for broker in self._brokers.values() for each in broker.due.values()]

    def _check_time(self, one: Partition, now: float) -> None:
        """Lose everything if its oldest records have waited for too long: later ones must not come before them."""
        batch = self._next(one)
        if batch is not None and now - batch.since > self._settings.delivery_timeout:
            self.lose(KafkaError._MSG_TIMED_OUT, "records were not written in time")

    def _check_credentials(self, now: float) -> None:
        """Lose everything when brokers refuse the credentials for long.

        A broker that has just started may do so, too.
        """
        if self.topics.refused is not None and now - self.topics.refused[0] > _REFUSED_FOR:
            self.lose(KafkaError._AUTHENTICATION, self.topics.refused[1], fatal=True)

    async def _look(self) -> None:
        """Send new records, as far as no other call does so already."""
        self._looks = False
        try:
            self._collect()
        except Exception as error:
            self._broken(error)

    def _collect(self) -> None:
        for name in self._outbox.take_ready():
            one = self._partitions.get(name)
            if one is None:
                one = self._partitions[name] = Partition(name)
            one.more = True
            if not one.queued:
                self._queue(one)

    def _queue(self, one: Partition) -> None:
        """It has something to send."""
        one.queued = True
        node = self.topics.leader(one.name)
        if node is None or one.not_before > self._connection.now():
            self._stuck[one.name] = one
            if node is None:
                self.topics.want(one.name[0])
            self._watch.notify_here()
            return
        broker = self._brokers.get(node)
        if broker is None:
            broker = self._brokers[node] = _Broker(self._connection.wake_up())
        broker.due[one.name] = one
        if not broker.served:
            broker.served = True
            if self._settings.transactional_id is not None:
                broker.asked_at = self._connection.now()  # others may come with the commit, which ends the wait
            if self._rests:
                self._watch.notify_here()  # it looks at the time from now on
            self._connection.go_on(partial(self._serve, node, broker))

    async def _serve(self, node: Node, broker: _Broker) -> None:
        """Send to a broker as long as there is something for it."""
        try:
            while broker.due and not self._ended:
                await self._leave_alone(broker)
                await self._linger(broker)
                self._collect()
                names = list(broker.due)
                if await self._may_send(names) and not self._ended:
                    await self._send(node, broker, names)
                    self._collect()
                elif not self._ended:
                    await self._connection.sleep(_LOOK)  # there is no producer yet
        except Exception as error:
            self._broken(error)
        finally:
            broker.served = False
            if not any(each.served for each in self._brokers.values()):
                self._hurry = False
            self._tell()

    async def _leave_alone(self, broker: _Broker) -> None:
        while (rest := broker.not_before - self._connection.now()) > 0 and not self._ended:
            await self._connection.sleep(min(rest, _LOOK))

    async def _linger(self, broker: _Broker) -> None:
        rest = broker.asked_at + self._settings.linger - self._connection.now()
        if rest > 0 and not self._hurry and self._outbox.bytes < self._settings.batch_size:
            broker.lingers = self._looks = True
            if not self._hurry:  # which may have been said just before
                await broker.wake.wait(rest)
            broker.lingers = self._looks = False

    async def _may_send(self, names: list[wire.Name]) -> bool:
        """Make sure that the brokers will take records of this producer for these partitions."""
        try:
            return await self._transaction.admit(names)
        except wire.TransactionError as error:
            self.lose(error.code, error.text, fatal=not error.abort)
            return False

    def _next(self, one: Partition) -> RecordBatch | None:
        """The batch to be sent next, which stays; ``None``: there is nothing."""
        while not one.batches and one.more:
            taken = self._outbox.take(*one.name)
            one.more = taken is not None and taken.more
            if taken is not None and taken.data is not None:
                one.batches.append(RecordBatch(taken.data, taken.record_count, taken.since))
                self.progress.on_the_way += len(taken.data)
        return one.batches[0] if one.batches else None

    async def _send(self, node: Node, broker: _Broker, names: list[wire.Name]) -> None:
        """Make a request with batches of these partitions, and take the answer."""
        sent, size = list[tuple[Partition, RecordBatch]](), 0
        for name in names:
            if size >= _REQUEST_SIZE:
                break
            one = broker.due.pop(name)
            if self.topics.leader(name) != node:
                self._queue(one)
                continue
            batch = self._next(one)
            if batch is None:
                one.queued = False
            else:
                size += len(batch.data)
                sent.append((one, batch))
        if sent:
            broker.asked_at = self._connection.now()
            answer = await self._asked(node, broker, sent)
            self._transaction.answered()
            if not answer.codes:
                for name in broker.due:
                    self.topics.forget(name)
            for one, batch in sent:
                if not self._ended:
                    self._settle(one, batch, answer)
            self._tell()

    def _stamped(self, one: Partition, batch: RecordBatch) -> bytes:
        """The batch as it is sent now: compressed, and the producer's from its sequence number on."""
        producer, codec = self._transaction.producer, self._settings.codec
        return native.stamped(
            batch=codec.applied(batch),
            producer=producer.id,
            epoch=producer.epoch,
            sequence=one.sequence_of(producer),
            attributes=codec.number | (_TRANSACTIONAL if self._settings.transactional_id is not None else 0),
        )

    async def _asked(self, node: Node, broker: _Broker, sent: list[tuple[Partition, RecordBatch]]) -> ProduceAnswer:
        """The answer, or an empty one."""
        batches = [(one.name, self._stamped(one, batch)) for one, batch in sent]
        request = ProduceRequest(
            self._settings.transactional_id,
            batches,
            self._settings.request_timeout,
            implicit=self._transaction.implicit,
        )
        if not self._transaction.may_write():  # it was so when the records were taken: the process stood still
            self.lose(KafkaError._STATE, "other instances may have taken over meanwhile")
            return _NO_ANSWER
        left = min(batch.since for _, batch in sent) + self._settings.delivery_timeout - self._connection.now()
        if left <= 0:
            self.lose(KafkaError._MSG_TIMED_OUT, "records were not written in time")
            return _NO_ANSWER
        # The broker's own time-out comes first.
        timeout = min(left, self._settings.request_timeout + _GRACE)
        try:
            answer = await self._connection.send(request, node, timeout)
            broker.not_before = self._connection.now() + throttle(answer.throttle_time_ms, node)
            return answer
        except UnreachableError as error:
            log.debug("records are sent again: %s", error)
        return _NO_ANSWER

    def _settle(self, one: Partition, batch: RecordBatch, answer: ProduceAnswer) -> None:
        code = answer.codes.get(one.name, KafkaError.NETWORK_EXCEPTION)
        what = verdict(code)
        if what is Verdict.WRITTEN:
            one.written()
            self.progress.wrote(one.name, answer.offsets.get(one.name, -1), batch.count)
            one.not_before = 0.0
            self._transaction.wrote()
            self._finish(batch)
        elif what is Verdict.AGAIN:
            log.debug("%s-%d: records are sent again: %s", *one.name, KafkaError(code).str())
            one.not_before = self._connection.now() + self._settings.retry_backoff
            if code in ELSEWHERE or code == KafkaError.NETWORK_EXCEPTION:
                self.topics.forget(one.name)
        elif what in (Verdict.REFUSED, Verdict.SEARCHED):
            self._divide(one, batch, code, answer.reasons.get(one.name, NO_REASONS), search=what is Verdict.SEARCHED)
        else:
            self.lose(code, KafkaError(code).str())
            return
        if one.batches or one.more:
            self._queue(one)
        else:
            one.queued = False

    def _finish(self, batch: RecordBatch) -> None:
        self.progress.on_the_way -= len(batch.data)
        self.progress.finished += batch.count

    def _divide(self, one: Partition, batch: RecordBatch, code: int, reasons: Reasons, *, search: bool) -> None:
        """A batch was refused: report the records that cannot be written, before they count as done with, and send the
        others again."""
        records = records_of(batch)
        refused, parts = divided(len(records), reasons.records) if search else (range(len(records)), [])
        one.batches.popleft()
        self.progress.on_the_way -= len(batch.data)
        for place in refused:
            self.progress.fail(_error(code, reasons.of(place)), raw(one.name, records[place]))
        self.progress.finished += len(refused)
        for part in reversed(parts):
            again = batch_of([records[place] for place in part], batch.since)
            self.progress.on_the_way += len(again.data)
            one.batches.appendleft(again)

    def lose(self, code: int, text: str, *, fatal: bool = False) -> None:
        """Send nothing any more: records that were not acknowledged are lost to this producer.

        ``fatal``: to any other, too.
        """
        if not self._ended:
            known = code if fatal or code in _KNOWN else KafkaError._STATE
            self.progress.fail(KafkaError(known, text, fatal), _NO_RECORD)
            self._ended = True
        self._tell()


def _error(code: int, reason: str) -> KafkaError:
    """The error with the broker's own words, which say more, if it has any."""
    text = KafkaError(code).str()
    return KafkaError(code, f"{text}: {reason}" if reason else text)
