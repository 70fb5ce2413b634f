"""The subscription of this member: everything it sends to the group's leader when it joins.

Written on the membership's thread; ``draining`` and ``shutdown`` are set by the polling thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.membership import member_messages, wire
from streamsapp.membership.api import GroupTasks, Holdings, TaskCatalogue
from streamsapp.membership.mailbox import MembershipMailbox
from streamsapp.membership.member_messages import Definition, Subscription
from streamsapp.record import TopicPartition


class OwnSubscription:
    """Written anew for each JoinGroup, from what the instance holds then."""

    def __init__(
        self,
        config: StreamsConfig,
        mailbox: MembershipMailbox,
        catalogue: TaskCatalogue,
        holdings: Callable[[], Holdings],
    ) -> None:
        """``holdings`` returns which of the application's tasks the instance holds now."""
        self._config = config
        self._mailbox = mailbox
        self._holdings = holdings
        self.catalogue = catalogue
        self._packed: tuple[GroupTasks, set[str], list[Definition]] | None = None
        #: True if the others are to take over, and if the whole application is to stop.
        self.draining = self.shutdown = False
        #: The holdings in the last subscription.
        self.held = Holdings()
        #: Marks the last subscription: the assignment that answers it has the same.
        self.nonce = 0

    def write(self, transactional_id: str) -> bytes:
        """The next one, for a member that writes under ``transactional_id``."""
        self.nonce = random.getrandbits(32) or 1
        self.held = held = self._mailbox.take_stock(self._holdings)
        config = self._config
        known, topics, definitions = self._known()
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
            definitions=definitions,
            by_pattern=member_messages.pack_patterns(known),
            cuts=True,
        )
        return wire.subscription(topics, said.encode())

    @property
    def commits_first(self) -> bool:
        """True if results count with the next commit: then a member commits before it joins."""
        return self._config.exactly_once

    def no_task_reads(self, partition: TopicPartition) -> bool:
        """Return whether a partition is none of the application's, as one of a topic that matched a pattern and is
        gone. Any thread."""
        return all(partition not in info.partitions for info in self.catalogue.found().tasks.values())

    def _known(self) -> tuple[GroupTasks, set[str], list[Definition]]:
        """The tasks of the application with their topics, packed once as long as they are the same."""
        known = self.catalogue.found()
        if self._packed is None or self._packed[0] is not known:
            topics = {topic for info in known.tasks.values() for topic, _ in info.partitions}
            self._packed = known, topics, member_messages.pack_definitions(known.tasks)
        return self._packed
