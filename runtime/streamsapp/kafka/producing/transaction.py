"""A producer's identity and its transactions, as the brokers are asked for them. The thread of the connection.

An answer that does not come is never waited for twice. The request may still be on its way, and would be taken for a
later transaction's (KIP-890 describes this). Then the transaction is lost, and the next producer's epoch keeps it out.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError

from streamsapp.brokers.connection import Check, Connection, Node, Turns
from streamsapp.brokers.coordinators import GROUP, TRANSACTION, check_coordinator, coordinator_of, find_coordinator
from streamsapp.brokers.errors import NotSentError, RefusedError, RefusedTlsError, UnreachableError
from streamsapp.brokers.messages.init_producer_id import InitProducerIdResponse
from streamsapp.brokers.request import Request
from streamsapp.brokers.request_by_hand import RequestByHand
from streamsapp.kafka.group_member import Member
from streamsapp.kafka.producing import wire
from streamsapp.kafka.producing.settings import BatchSettings
from streamsapp.kafka.producing.transaction_requests import EndTxnRequest, TxnOffsetCommitAnswer, TxnOffsetCommitRequest
from streamsapp.kafka.producing.wire import TransactionError
from streamsapp.record import TopicPartition

log = logging.getLogger(__name__)

#: An answer.
A = TypeVar("A")

#: Between two tries: while the last transaction is being ended, and while a coordinator is out of reach, in seconds.
_SOON, _AWAY = 0.002, 0.1
#: Time enough to begin with sending records, in seconds.
_MOMENT = 0.001
#: While what another producer left open is being aborted, in seconds.
_ABORTING = 0.02

#: The coordinator is another broker, or not ready; or it has not heard of a topic yet.
_LATER = frozenset(
    {
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
#: Another attempt would meet the same.
_FORBIDDEN = frozenset(
    {
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
    }
)
#: The remedy for each; the topics are named where they are known.
_REMEDIES = {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "; grant WRITE and DESCRIBE on the transactional id {id}",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "; grant READ on the group {group}",
}


class _Commit:
    """A commit on its way, beside records."""

    def __init__(self, connection: Connection) -> None:
        #: Says whether it is under way, whether it has ended well, and whether it is to be aborted, if it still can.
        self.under_way = self.ended = self.aborted = False
        #: The group whose offsets are on their way, and the error of the offsets that were sent, or of the end.
        self.group: str | None = None
        self.error: Exception | None = None
        self.turn = Turns(connection)
        #: Wakes offsets that wait for the answer to records.
        self.answered = connection.wake_up()


class Transaction:
    """The producer's side of transactions; without a transactional id just its identity."""

    def __init__(
        self, settings: BatchSettings, connection: Connection, may_write: Callable[[], bool] = lambda: True
    ) -> None:
        """``may_write`` says whether no other instance can have taken over.

        It is asked where no broker would refuse a write that comes too late.
        """
        self.may_write = may_write
        self._settings = settings
        self._connection = connection
        self._coordinators: dict[tuple[int, str], Node] = {}
        self.producer = wire.Producer(-1, -1)
        self._partitions: set[wire.Name] = set()
        self._groups: set[str] = set()
        self._open = False
        #: Says whether records and offsets admit their partition and group, and each transaction has its own epoch
        #: (KIP-890). And whether any broker has something of this one.
        self.implicit = False
        self._wrote = False
        self._commit = _Commit(connection)
        self._given_up = False
        self._admission = Turns(connection)

    @property
    def _id(self) -> str | None:
        return self._settings.transactional_id

    @property
    def committing(self) -> bool:
        """True if a commit is under way that no caller waits for. The producer's thread."""
        return self._commit.under_way

    @property
    def committed(self) -> bool:
        """True if it has ended well. The producer's thread."""
        return self._commit.ended

    def give_up(self) -> None:
        """Ask for nothing any more. Any thread."""
        self._given_up = True

    async def init(self) -> None:
        """Get an id and an epoch. With a transactional id: fence the producer that used it before."""
        request = wire.init_producer(self._id, self._settings.transaction_timeout_ms)
        while True:
            self._check()
            try:
                answer = await self._init(request)
            except UnreachableError as error:  # nothing was begun under this identity: it may be asked again
                _check_refused(error)
                log.debug("a producer cannot start yet: %s", error)
                self._coordinators.clear()  # it may be another broker by now
                await self._connection.sleep(_AWAY)
                continue
            self._check()
            if answer.error_code == KafkaError.CONCURRENT_TRANSACTIONS:
                await self._connection.sleep(_ABORTING)
            elif not answer.error_code:
                self.producer = wire.Producer(answer.producer_id, answer.producer_epoch)
                return
            else:
                await self._pause(answer.error_code, TRANSACTION, self._id or "")

    async def _init(self, request: Request[InitProducerIdResponse]) -> InitProducerIdResponse:
        timeout, check = self._settings.request_timeout, wire.check_producer
        if self._id is None:
            return await self._connection.ask_any(lambda: request, timeout, check, apart=True)
        node = await self._coordinator(TRANSACTION, self._id)
        self.implicit = wire.admits_implicitly(await self._connection.send(wire.features(), node, timeout))
        return await self._connection.send(request, node, timeout, check)

    async def admit(self, names: Iterable[wire.Name]) -> bool:
        """Make the partitions part of the transaction; false while there is no producer yet. Raises
        ``TransactionError``."""
        async with self._admission:
            return await self._admit([name for name in names if name not in self._partitions])

    async def _admit(self, missing: list[wire.Name]) -> bool:
        if self._id is None:
            if self.producer.id < 0:
                await self.init()
            return True
        if self.producer.id < 0 or not self._open:
            return False
        if missing:
            transactional_id, producer = self._id, self.producer
            self._partitions.update(missing)  # before: whatever becomes of the answer, they have to be ended
            if self.implicit:
                return True
            try:
                await self._ask(
                    TRANSACTION,
                    transactional_id,
                    lambda: wire.add_partitions(transactional_id, producer, missing),
                    wire.add_partitions_errors,
                    partial(wire.check_added, names=missing),
                )
            except TransactionError as error:
                raise _with_topics(error, missing) from error
        if self._commit.group is not None:
            await self._admit_group(self._commit.group)
        return True

    async def _admit_group(self, group_id: str) -> None:
        assert self._id is not None
        transactional_id, producer = self._id, self.producer
        if group_id not in self._groups:
            self._groups.add(group_id)
            if self.implicit:
                return
            await self._ask(
                TRANSACTION,
                transactional_id,
                lambda: wire.add_offsets(transactional_id, producer, group_id),
                _error_code,
            )

    def answered(self) -> None:
        """A broker has answered to records: it asks the coordinator about them no more."""
        self._commit.answered.notify_here()

    def wrote(self) -> None:
        """Brokers have something that is part of it."""
        self._wrote = True

    def begin(self) -> None:
        """A transaction begins; the brokers learn of it with the first partition."""
        self._partitions.clear()
        self._groups.clear()
        self._commit.error = None
        self._open = True
        self._wrote = self._commit.ended = self._commit.aborted = False

    async def commit_offsets(
        self, member: Member, offsets: Mapping[TopicPartition, tuple[int, str]], after: float = 0.0
    ) -> None:
        """Make offsets part of the transaction, ``after`` so many seconds or when a broker has answered to records.
        Raises ``TransactionError``."""
        assert self._id is not None
        transactional_id, producer, implicit = self._id, self.producer, self.implicit
        async with self._admission:
            await self._admit_group(member.group_id)
        if after:
            self._commit.answered = self._connection.wake_up()
            await self._commit.answered.wait(after)
        await self._ask(
            GROUP,
            member.group_id,
            lambda: TxnOffsetCommitRequest(transactional_id, producer, member, offsets, implicit=implicit),
            _error_codes,
        )
        self.wrote()

    def commit_begins(self, group_id: str) -> None:
        """``commit_beside`` comes next, on the connection's thread. Any thread."""
        self._commit.group = group_id
        self._commit.under_way = True

    async def commit_beside(
        self,
        member: Member,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        written: Callable[[], Awaitable[bool]],
    ) -> None:
        """As ``commit_offsets`` and ``end``, beside records on their way: ``written`` waits for those, and says whether
        the transaction is whole. Another call of ``end`` waits for it, and raises what it would."""
        async with self._commit.turn:
            try:
                # Records that wait are admitted first, and sent a moment before the offsets. Brokers ask the
                # coordinator about both, and may refuse one while they ask about the other (KIP-890).
                if not self.implicit:  # their admission takes a request of its own
                    await self._connection.sleep(_MOMENT)
                await self.commit_offsets(member, offsets, after=(3 if self.implicit else 2) * _MOMENT)
                self._commit.group = None
                if await written() and not self._commit.aborted:
                    await self._end(committed=True)
                    self._commit.ended = True
            except Exception as error:
                self._commit.error = error
            finally:
                self._commit.group = None
                self._commit.under_way = False

    async def end(self, *, committed: bool) -> None:
        """End the transaction. Raises ``TransactionError``."""
        self._commit.aborted = not committed
        async with self._commit.turn:
            pass  # after the offsets on their way: they would be part of another transaction
        if self._commit.ended:
            return  # by then it was too late for anything else
        if committed and self._commit.error is not None:
            raise self._commit.error
        await self._end(committed=committed)

    async def _end(self, *, committed: bool) -> None:
        assert self._id is not None
        transactional_id, producer, implicit = self._id, self.producer, self.implicit
        if implicit and not self._wrote:
            committed = False  # no broker learned of it: it may be aborted, and has nothing to commit
        self._open = False
        if self._partitions or self._groups:
            try:
                answer = await self._ask(
                    TRANSACTION,
                    transactional_id,
                    lambda: EndTxnRequest(transactional_id, producer, committed=committed, implicit=implicit),
                    _error_code,
                )
            except Exception:
                self.give_up()  # the request may be taken yet
                raise
            if answer.producer is not None:
                self.producer = answer.producer

    async def _ask(
        self,
        kind: int,
        key: str,
        request: Callable[[], RequestByHand[A]],
        errors: Callable[[A], list[int]],
        check: Check[A] = lambda answer: None,
    ) -> A:
        """Ask the coordinator of a kind until it has done so; returns its answer. A group's says that it loads also
        when the transaction's is just doing something, which is over in a moment (KIP-890)."""
        busy = _SOON
        while True:
            node = await self._coordinator(kind, key)
            self._check()
            try:
                answer = await self._connection.send(request(), node, self._settings.request_timeout, check)
            except NotSentError as error:
                _check_refused(error)
                log.debug("a coordinator is out of reach: %s", error)
                await self._pause(KafkaError.COORDINATOR_NOT_AVAILABLE, kind, key)
                continue
            except UnreachableError as error:
                raise TransactionError(KafkaError._TRANSPORT, str(error), abort=True) from error
            codes = errors(answer)
            if not codes:
                return answer
            if codes[0] in (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.CONCURRENT_TRANSACTIONS):
                await self._connection.sleep(busy)
                busy = min(1.25 * busy, _AWAY)
            else:
                await self._pause(codes[0], kind, key)

    async def _pause(self, code: int, kind: int, key: str) -> None:
        """Wait until it makes sense to ask again; raises ``TransactionError`` if it never does."""
        if code in _LATER:
            self._coordinators.pop((kind, key), None)
            await self._connection.sleep(_AWAY)
        else:
            remedy = _REMEDIES.get(code, "").format(id=self._id, group=", ".join(self._groups))
            raise TransactionError(code, KafkaError(code).str() + remedy, abort=code not in _FORBIDDEN)

    async def _coordinator(self, kind: int, key: str) -> Node:
        while (kind, key) not in self._coordinators:
            self._check()
            try:
                answer = coordinator_of(
                    await self._connection.ask_any(
                        lambda: find_coordinator(kind, key),
                        self._settings.request_timeout,
                        partial(check_coordinator, key=key),
                        apart=True,
                    )
                )
            except UnreachableError as error:
                _check_refused(error)
                log.debug("a coordinator is not known yet: %s", error)
                await self._connection.sleep(_AWAY)
                continue
            if not answer.error_code:
                # A connection of its own: on the other one a request may wait behind records.
                self._coordinators[kind, key] = self._connection.two_ways_to(answer, kind, key)[0]
            else:
                await self._pause(answer.error_code, kind, key)
        return self._coordinators[kind, key]

    def _check(self) -> None:
        if self._given_up:
            raise TransactionError(KafkaError._STATE, "it was given up", abort=True)


def _with_topics(error: TransactionError, names: Iterable[wire.Name]) -> TransactionError:
    """The error with what to do, if it is about one of these topics."""
    if error.code != KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return error
    topics = ", ".join(sorted({topic for topic, _ in names}))
    return TransactionError(error.code, f"{error.text}; grant WRITE on each of {topics}", abort=error.abort)


def _check_refused(error: UnreachableError) -> None:
    """Raises ``TransactionError`` if another try would meet the same; certificates may be renewed until then."""
    if isinstance(error, RefusedError) and not isinstance(error, RefusedTlsError):
        raise TransactionError(KafkaError._AUTHENTICATION, str(error), abort=False) from error


def _error_codes(answer: TxnOffsetCommitAnswer) -> list[int]:
    return [code for code in answer.codes if code]


def _error_code(answer: Any) -> list[int]:
    return [answer.error_code] if answer.error_code else []
