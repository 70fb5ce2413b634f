"""``GroupMember``: an instance as a member of the application's consumer group, by the classic group protocol.

Called by the polling thread, through ``api.Membership``. The group protocol itself runs on a thread of its own
(``connection``), so that a rebalance takes no time from the polling thread, and a long commit takes none from the
rebalance.

    polling thread ── poll, begin_commit, … ─► MembershipMailbox ◄─ news, leave to commit ── GroupMembership
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import KafkaError, KafkaException

from streamsapp.brokers.connection import Connection
from streamsapp.brokers.errors import UnreachableError
from streamsapp.brokers.settings import connection_settings
from streamsapp.clock import Clock
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.deadline import ClosingTime
from streamsapp.errors import StreamsError
from streamsapp.kafka import group_member
from streamsapp.kafka.sending import NothingCommittedError
from streamsapp.membership import fencing, wire
from streamsapp.membership.api import Holdings, News, TaskCatalogue
from streamsapp.membership.assignor.model import TaskAssignor
from streamsapp.membership.group_leader import GroupLeader
from streamsapp.membership.mailbox import MembershipMailbox
from streamsapp.membership.member_id import MemberId
from streamsapp.membership.own_subscription import OwnSubscription
from streamsapp.membership.rebalance import RebalanceHandler
from streamsapp.membership.settings import group_settings
from streamsapp.membership.wire import Identity
from streamsapp.record import TopicPartition

log = logging.getLogger(__name__)

#: How long the polling thread waits for the answer to a commit, and for the group to take note of a leave, in seconds.
COMMIT, LEAVE = 10.0, 5.0
#: How long the thread may take to end, in seconds.
END = 2.0

_RETRIABLE = frozenset(
    {
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


class GroupMember:
    """One instance's place in the group: implements ``api.Membership``."""

    def __init__(
        self,
        config: StreamsConfig,
        clock: Clock,
        assignor: TaskAssignor,
        new_member_id: Callable[[], MemberId] = lambda: MemberId(None),
        closing: ClosingTime | None = None,
        on_news: Callable[[], None] = lambda: None,
        seldom: Callable[[], bool] = lambda: False,
    ) -> None:
        """``new_member_id`` is called at the start, when this process has its directory; not for a static member, whose
        place is kept when its process ends. ``on_news`` is called on the membership's thread when there is something
        for the polling thread. ``seldom`` says on that thread if it has little to do each time."""
        self._closing = closing or ClosingTime(clock)
        self._config = config
        self._clock = clock
        self._assignor = assignor
        properties = client_properties.main_consumer(config)
        self._settings = group_settings(config, properties)
        self._connection_settings = connection_settings(properties, f"{config.client_id}-member")
        self._new_member_id = new_member_id
        transactional_id = fencing.transactional_id(config.application_id, config.group_instance_id)
        self._mailbox = MembershipMailbox(clock, transactional_id, on_news)
        self._seldom = seldom
        self._connection: Connection | None = None
        self._rebalance: RebalanceHandler | None = None
        self._left = False

    # ---- polling thread ------------------------------------------------------------------------------------------

    @property
    def tls(self) -> tuple[str, str] | None:
        """The version and the cipher of TLS that the connection to the brokers has; ``None`` before, and without."""
        return None if self._connection is None else self._connection.tls

    @property
    def transactional_id(self) -> str:
        return self._mailbox.transactional_id

    @property
    def safe_until(self) -> float:
        if self._rebalance is None:
            return -math.inf
        # In this order: a member that joins again after a loss hears of the loss before it is a member.
        session = self._rebalance.group.session.safe_until
        return session if self._mailbox.losses_heard else -math.inf

    @property
    def outage(self) -> tuple[float, str] | None:
        return None if self._rebalance is None else self._rebalance.group.coordinator.outage

    @property
    def refused(self) -> bool:
        return self._rebalance is not None and self._rebalance.group.coordinator.refused

    def start(self, catalogue: TaskCatalogue, holdings: Callable[[], Holdings]) -> None:
        self._connection = connection = Connection(self._connection_settings)
        self._mailbox.poll()  # the polling thread is alive from now on
        self._rebalance = RebalanceHandler(
            self._settings,
            self._new_member_id() if self._config.group_instance_id is None else MemberId(None),
            self._clock,
            connection,
            self._mailbox,
            OwnSubscription(self._config, self._mailbox, catalogue, holdings),
            GroupLeader(self._config, self._clock, self._assignor, connection, catalogue),
        )
        self._connection.start()
        self._rebalance.start()

    def poll(self) -> News | None:
        news = self._mailbox.poll(seldom=self._seldom())
        if news is None and self._connection is not None and not self._connection.alive and not self._left:
            raise StreamsError("the membership's thread has ended; see the log")
        return news

    def rejoin(self, *, at_once: bool = False) -> None:
        if self._rebalance is not None:
            reason = "tasks were given up" if at_once else "a replica has caught up"
            self._rebalance.group.rejoin(reason, at_once=at_once)

    @property
    def commit_wanted(self) -> bool:
        return self._mailbox.commit_wanted

    @property
    def may_commit(self) -> bool:
        return self._mailbox.may_commit

    def begin_commit(self) -> bool:
        return self._mailbox.begin_commit()

    def cuts(self, number: int) -> bool:
        return self._mailbox.cuts(number)

    def handed_over(self) -> None:
        if self._rebalance is not None:
            self._rebalance.handed_over()

    def end_commit(self) -> None:
        self._mailbox.end_commit()

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Raises ``KafkaException``: with UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION or FENCED_INSTANCE_ID the group has
        gone on without this instance; a retriable one may be tried again."""
        request = wire.commit(self._settings, self._committing(), offsets)
        assert self._connection is not None
        assert self._rebalance is not None
        coordinator = self._rebalance.group.coordinator
        try:
            check = partial(wire.check_committed, offsets=offsets)
            answer = self._connection.run(
                lambda: coordinator.request(request, COMMIT, check), COMMIT, self._closing.remote
            )
        except UnreachableError as error:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"offsets: {error}", False, True)) from error
        errors = wire.commit_errors(answer)
        for partition, code in errors.items():
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART and self._rebalance.own.no_task_reads(partition):
                log.info("the offset of %s is not committed: no task reads it any more", partition)
                continue
            if code in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE):
                coordinator.forget()
            text = f"the offset of {partition} was not committed: {KafkaError(code).str()}"
            kind = NothingCommittedError if errors.keys() == offsets.keys() else KafkaException
            raise kind(KafkaError(code, text, False, code in _RETRIABLE))

    def metadata(self) -> group_member.Member:
        """This member in the generation in which the commit under way began."""
        identity = self._committing()
        settings = self._settings
        return group_member.Member(settings.group_id, identity.generation, identity.member_id, settings.instance_id)

    def drain(self) -> None:
        if self._rebalance is not None:
            self._rebalance.own.draining = True
            self._rebalance.group.rejoin("the instance drains")

    def request_shutdown(self) -> None:
        if self._rebalance is not None:
            self._rebalance.own.shutdown = True
            self._rebalance.group.rejoin("the application is to stop")

    def take_out(self, member_id: str) -> None:
        if self._connection is None or self._rebalance is None or self._left:
            raise UnreachableError("this instance is in no group")
        group = self._rebalance.group
        self._connection.run(lambda: group.take_out(member_id), LEAVE, self._closing.remote)

    def leave(self, *, stay: bool = False) -> None:
        if self._left or self._connection is None or self._rebalance is None:
            return
        self._left = True
        group = self._rebalance.group
        try:
            # The steps after this one have the other half of the time that is left.
            timeout = self._closing.end.left(LEAVE, part=0.5)
            self._connection.run(lambda: group.leave("the instance stops", stay=stay), timeout, self._closing.end)
        except UnreachableError as error:
            log.warning("the others learn later that this instance left their group: %s", error)
        self._connection.close(self._closing.end.left(END, part=0.5))

    def _committing(self) -> Identity:
        identity = self._mailbox.committing
        if identity is None:
            text = "no commit may begin: this instance is no member of the group, or is joining"
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID, text))
        return identity
