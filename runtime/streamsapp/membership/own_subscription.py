"""The subscription of this member: everything it tells the group's leader when it joins.

Written on the membership's thread; ``draining`` and ``shutdown`` are set by the polling thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.membership import member_messages, wire
from streamsapp.membership.api import Holdings, TaskInfo
from streamsapp.membership.mailbox import MembershipMailbox
from streamsapp.membership.member_messages import Subscription
from streamsapp.record import TaskId


class OwnSubscription:
    """Written anew for each JoinGroup, from what the instance holds then."""

    def __init__(
        self,
        config: StreamsConfig,
        mailbox: MembershipMailbox,
        tasks: Mapping[TaskId, TaskInfo],
        holdings: Callable[[], Holdings],
    ) -> None:
        """``tasks``: all of the application's; ``holdings`` tells which of them the instance holds now."""
        self._config = config
        self._mailbox = mailbox
        self._holdings = holdings
        self._topics = {topic for info in tasks.values() for topic, _ in info.partitions}
        self._definitions = member_messages.pack_definitions(tasks)
        self.tasks = frozenset(tasks)
        #: True if the others are to take over, and if the whole application is to stop.
        self.draining = self.shutdown = False
        #: The holdings that the last subscription tells of.
        self.held = Holdings()
        #: Marks the last subscription: the assignment that answers it has the same.
        self.nonce = 0

    def write(self, transactional_id: str) -> bytes:
        """The next one, for a member that writes under ``transactional_id``."""
        self.nonce = random.getrandbits(32) or 1
        self.held = held = self._mailbox.take_stock(self._holdings)
        config = self._config
        said = Subscription(
            version=member_messages.VERSION,
            nonce=self.nonce,
            transactional_id=transactional_id if config.exactly_once else "",
            endpoint=config.application_server,
            host=config.host_id,
            tags=dict(config.client_tags),
            threads=min(config.threads, member_messages.MAX_THREADS),
            draining=self.draining,
            shutdown=self.shutdown,
            active=member_messages.pack(held.active),
            lags=member_messages.pack_lags(held.lags),
            on_disk=member_messages.pack(held.on_disk),
            definitions=self._definitions,
        )
        return wire.subscription(self._topics, said.encode())
