"""A producer that sends whole record batches, with the methods of confluent-kafka's that this package uses.

Records become bytes of a batch in one call of C for many of them, and brokers get a batch at a time. librdkafka makes
an object of each record, and hands it from thread to thread. Used by the thread that a producer belongs to; a thread of
its own sends (``sender``).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from operator import index
from threading import Condition
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from streamsapp import native
from streamsapp.brokers.connection import Connection
from streamsapp.brokers.errors import UnreachableError
from streamsapp.brokers.settings import connection_settings
from streamsapp.clock import SystemClock
from streamsapp.config.client_properties import LINGER_MS, ClientProperties
from streamsapp.deadline import Deadline
from streamsapp.kafka.group_member import Member
from streamsapp.kafka.producing.progress import Progress
from streamsapp.kafka.producing.sender import Sender
from streamsapp.kafka.producing.settings import batch_settings
from streamsapp.kafka.producing.transaction import Transaction
from streamsapp.kafka.producing.wire import TransactionError
from streamsapp.kafka.refusals import raw_record
from streamsapp.kafka.retry import GIVE_UP_AFTER
from streamsapp.kafka.sending import Failure, OnRefused
from streamsapp.native import Why
from streamsapp.outgoing import ChangelogSlice, OutputRecord
from streamsapp.record import InputRecord, TopicPartition
from streamsapp.serdes.api import identity

T = TypeVar("T")

#: How long a call that can take nothing waits for that to change, in seconds. That is so where there is no room, and
#: where the brokers have not described the topic.
_WAIT, _WAIT_FOR_TOPIC = 0.005, 0.25
#: So long, in seconds, a partition that a topic has not is not looked for again.
_MISSING_SECONDS = 5.0
#: How long the connection's thread may take to end, in seconds.
_END = 1.0


class BatchProducer:
    """Records on their way to the brokers, and the transaction that they are part of."""

    def __init__(
        self,
        properties: ClientProperties,
        deadline: Deadline | None = None,
        may_write: Callable[[], bool] = lambda: True,
        connection: Connection | None = None,
        changed: Condition | None = None,
    ) -> None:
        """After the ``deadline`` no commit is waited for. Nothing is sent once ``may_write`` says no (any thread).
        Tests give a connection in a time of its own, and the wait for news of records."""
        self._settings = settings = batch_settings(properties)
        self._outbox = native.Outbox(batch_size=settings.batch_size, most=settings.most)
        name = str(properties.get("client.id", "producer"))
        self._connection = connection or Connection(connection_settings(properties, name))
        self._transaction = Transaction(settings, self._connection, may_write)
        self._sender = Sender(self._outbox, settings, self._connection, self._transaction, Progress(changed))
        #: Partitions that a record was meant for and that are not there, with the brokers' answers by then, and when.
        self._missing: dict[tuple[str, int], tuple[int, float]] = {}
        #: How many failures the producer's thread has taken.
        self._failures_taken = 0
        self._forever = Deadline(SystemClock())
        self._deadline = deadline or self._forever
        self._connection.start()
        self._connection.spawn(self._sender.watch)

    # ---- records -----------------------------------------------------------------------------------------------

    def send(self, records: list[OutputRecord], on_refused: OnRefused) -> list[OutputRecord]:
        """Take records; returns the records for which there is no room, or whose topic is not known yet. They are sent
        when they are many, or with the next ``poll``, ``flush``, ``no_more`` or ``begin_commit``."""
        at, plain = 0, records
        self._outbox.now = now = self._connection.now()
        give_up = now + _WAIT_FOR_TOPIC
        while not self._sender.failed:
            at, why = self._outbox.add(records=plain, begin=at, room=self._room)
            self._sender.notice_much()
            if why == Why.TAKEN:
                return []
            if why == Why.NOT_KNOWN:
                plain = [*plain[:at], _plain(plain[at]), *plain[at + 1 :]]
            elif code := self._refusal(why, plain[at][0], plain[at][3]):
                on_refused(KafkaError(code), raw_record(plain[at]))
                at += 1
            else:
                self._sender.notice()
                self._sender.progress.wait(_WAIT)
                self._outbox.now = now = self._connection.now()
                if why == Why.FULL or now > give_up:
                    break
        return records[at:]

    def send_changes(self, changes: ChangelogSlice, on_refused: OnRefused) -> ChangelogSlice:
        """Take entries of a store, for its changelog; returns as ``send`` does."""
        count, form, at = len(changes), changes.format, 0
        if form.has_headers:
            return changes.part(count - len(self.send(changes.records(), on_refused)))
        self._outbox.now = self._connection.now()
        while not self._sender.failed:
            at, why = self._outbox.add_changes(
                topic=changes.topic,
                partition=changes.partition,
                changes=changes.entries,
                begin=at,
                room=self._room,
                raw=None if form.raw is identity else form.raw,
                number_size=form.number_size,
            )
            self._sender.notice_much()
            if why == Why.TAKEN:
                return changes.part(count)
            # Whatever is wrong with this record, it is a record like others.
            if self.send(changes.part(at, at + 1).records(), on_refused):
                return changes.part(at)
            at += 1
        self._sender.notice()
        self._sender.progress.wait(_WAIT)
        return changes.part(at)

    @property
    def _room(self) -> int:
        return self._settings.queue - self._sender.progress.on_the_way

    def _refusal(self, why: int, topic: str, partition: int) -> int:
        """The error of a record that was not taken; 0 if it may be taken later."""
        topics = self._sender.topics
        if why == Why.TOO_LARGE:
            return KafkaError.MSG_SIZE_TOO_LARGE
        if why == Why.FULL:
            return KafkaError.NO_ERROR
        if code := topics.error(topic):
            return code
        if why == Why.UNKNOWN_PARTITION:
            now = self._connection.now()
            answers, since = self._missing.setdefault((topic, partition), (topics.answers, now))
            if answers < topics.answers:
                if now - since > _MISSING_SECONDS:  # the topic may have more partitions when it is met again
                    del self._missing[topic, partition]
                return KafkaError._UNKNOWN_PARTITION
        self._sender.want(_name(topic))
        return KafkaError.NO_ERROR

    def poll(self, timeout: float) -> None:
        """Send what was taken; and wait for something to happen, up to so many seconds."""
        self._sender.notice()
        if timeout:
            self._sender.progress.wait(timeout)

    def flush(self, timeout: float) -> int:
        """Wait for everything to be acknowledged, up to so many seconds; returns how many records are not. If a commit
        has begun, its end is waited for."""
        if self._left and not self._transaction.committing:  # which hurries by itself
            self._sender.hurry()
        if not self._is_settled():
            self._sender.progress.wait_for(self._is_settled, timeout)
        return self._left

    def _is_settled(self) -> bool:
        return self._sender.failed or not (self._left or self._transaction.committing)

    def no_more(self) -> None:
        """Send at once what waits for others, unless the user has it wait for longer than inputs do."""
        if self._left and self._settings.linger <= LINGER_MS / 1000:
            self._sender.hurry()

    def take_failures(self) -> list[Failure]:
        """The records that could not be written since the last call."""
        if not (self._connection.alive or self._sender.failed):
            self._sender.lose(KafkaError._STATE, "the thread that sends records has ended")
        failures = self._sender.progress.failures
        self._failures_taken += (count := len(failures))
        return [failures.pop(0) for _ in range(count)]

    def check_failure(self, error: KafkaError, record: InputRecord) -> None:
        """The sender has found the record that is at fault, and its batch was not written: others go on without it."""

    def end_of(self, partition: TopicPartition) -> int | None:
        """The offset after the last record that was written to a partition; ``None`` if the broker did not say."""
        return self._sender.progress.ends.get(partition)

    def purge(self) -> None:
        """Send nothing more, and forget unsent records."""
        self._sender.end()
        self._connection.close(_END)
        self._outbox.clear()

    @property
    def _left(self) -> int:
        return self._outbox.added - self._sender.progress.finished

    # ---- transactions ------------------------------------------------------------------------------------------

    def init_transactions(self, timeout: float) -> None:
        """Fence the producer that used the transactional id before. Raises ``KafkaException``, as all that follow."""
        self._run(self._transaction.init, max(timeout, GIVE_UP_AFTER))

    def begin_transaction(self) -> None:
        """Begin a transaction; all records sent from now on are part of it."""
        self._check()
        self._transaction.begin()

    def send_offsets(self, offsets: Mapping[TopicPartition, tuple[int, str]], member: Member, timeout: float) -> None:
        """Commit offsets for a group with the transaction."""
        self._run(lambda: self._transaction.commit_offsets(member, offsets), timeout, self._deadline)

    def begin_commit(self, offsets: Mapping[TopicPartition, tuple[int, str]], member: Member) -> bool:
        """As ``send_offsets`` and ``commit_transaction``, and return at once: the latter gets the result. If a record
        cannot be written, another may have to take its place: then the transaction is left for the caller to end."""
        self._check()
        self._transaction.commit_begins(member.group_id)
        failures = self._failures_taken

        async def commit() -> None:
            if self._left:
                self._sender.hurry_here()
            await self._transaction.commit_beside(member, offsets, lambda: self._sender.written(failures))
            self._sender.progress.tell()

        self._connection.spawn(commit)
        return True

    def commit_transaction(self, timeout: float) -> None:
        """End it; everything that was sent is acknowledged."""
        self._check()
        if self._left:
            raise _lost("records are not written yet")
        if not self._transaction.committed:
            self._run(lambda: self._transaction.end(committed=True), timeout, self._deadline)

    def abort_transaction(self, timeout: float) -> None:
        """End it. While records are on their way, the client does not know what the brokers have got: then nothing can
        be sent after this."""
        if self._left:
            self._sender.end()
        self._run(self._aborted, timeout)

    async def _aborted(self) -> None:
        while self._sender.busy:  # an answer that comes later would be one to another transaction's records
            await self._connection.sleep(_WAIT)
        await self._transaction.end(committed=False)

    def _check(self) -> None:
        if self._sender.failed:
            raise _lost("a record of it was not written")

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]], timeout: float, deadline: Deadline | None = None) -> T:
        """The result of a request. If there is none, nothing more is sent: the request may still be on its way, and be
        taken for a later transaction's."""
        try:
            return self._connection.run(work, timeout, deadline or self._forever)
        except (TransactionError, UnreachableError) as error:
            self._transaction.give_up()
            self._sender.end()
            if isinstance(error, TransactionError):
                raise KafkaException(KafkaError(error.code, error.text, not error.abort, False, error.abort)) from error
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, str(error), False, False, True)) from error


def _lost(why: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._STATE, f"the transaction is lost: {why}", False, False, True))


def _plain(record: OutputRecord) -> OutputRecord:
    """The record with bytes where a serializer gave text, as the client takes it. Raises ``TypeError``, ``ValueError``
    and ``OverflowError`` for what is none, as the client does."""
    topic, value, key, partition, _, _, timestamp, headers = record
    pairs = headers.items() if isinstance(headers, Mapping) else [] if headers is None else headers
    found = [(_text(name), _bytes(each)) for name, each in _pairs(pairs)]
    place = _number("partition", partition, -1, 2**31 - 1), _number("timestamp", timestamp, 1 - 2**63, 2**63 - 1)
    return (_name(topic), _bytes(value), _bytes(key), place[0], None, None, place[1], found or None)


def _pairs(given: Any) -> list[tuple[Any, Any]]:
    if not isinstance(given, Iterable) or any(not isinstance(each, tuple) or len(each) != 2 for each in given):
        raise TypeError(f"headers are pairs of a name and bytes, and {given!r} are not")
    return list(given)


def _bytes(given: Any) -> bytes | None:
    if isinstance(given, str):
        return given.encode()
    if given is not None and not isinstance(given, bytes):
        raise TypeError(f"keys, values and headers are bytes, and {type(given).__name__} is not")
    return None if given is None else bytes(given)


def _name(given: Any) -> str:
    """A topic's name, which C ends at a zero."""
    name = _text(given)
    if "\0" in name:
        raise ValueError(f"a topic's name cannot contain a zero byte: {name!r}")
    return name


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"names of topics and headers are text, and {type(given).__name__} is not")
    given.encode()  # raises a ValueError of its own
    return str.__str__(given)  # the text itself, whatever a subclass prints


def _number(what: str, given: Any, least: int, most: int) -> int:
    try:
        found = int(index(given))
    except TypeError:
        raise TypeError(f"a record's {what} is a whole number, and {type(given).__name__} is not") from None
    if not least <= found <= most:
        raise OverflowError(f"a record's {what} of {given} is out of range")
    return found
