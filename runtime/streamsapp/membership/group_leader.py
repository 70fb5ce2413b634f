"""Leading the group: reads what the members subscriptions, finds the dead members, has the assignor decide, writes the
answers.

Runs on the membership's thread of the member that leads; ``leader`` has the pure part.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from streamsapp.brokers.connection import Connection
from streamsapp.brokers.errors import UnreachableError
from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.membership import fencing, leader_decision
from streamsapp.membership.api import GroupTasks, TaskCatalogue
from streamsapp.membership.assignor.model import AssignorSettings, TaskAssignor
from streamsapp.membership.cut import new_number
from streamsapp.membership.fencing import DepartedMembers
from streamsapp.membership.leader_decision import MemberSubscription, SubscriptionReader

log = logging.getLogger(__name__)


class GroupLeader:
    """This member as the leader of its group, whenever it is that."""

    def __init__(
        self,
        config: StreamsConfig,
        clock: Clock,
        assignor: TaskAssignor,
        connection: Connection,
        catalogue: TaskCatalogue,
    ) -> None:
        self._config = config
        self._clock = clock
        self._assignor = assignor
        self._connection = connection
        self._catalogue = catalogue
        self._follow_up = math.inf
        #: The tasks by which the group was assigned last; ``None`` while another member leads.
        self._led_by: GroupTasks | None = None

    async def lead(self, members: Mapping[str, bytes], departed: DepartedMembers) -> dict[str, bytes]:
        """The assignment of each member, given what all of them subscriptions."""
        self._led_by = known = self._catalogue.found()
        reader = SubscriptionReader(known)
        read = {member: reader.read(member, metadata) for member, metadata in members.items()}
        subscriptions = {member: each for member, each in read.items() if each is not None}
        settings = AssignorSettings(
            standby_replicas=self._config.standby_replicas,
            acceptable_recovery_lag=self._config.acceptable_recovery_lag,
            max_warmup_replicas=self._config.max_warmup_replicas,
            rack_tags=tuple(sorted(self._config.client_tags)),
        )
        dead = await self._dead(subscriptions, departed, everybody=len(subscriptions) == len(members))
        decision = leader_decision.decide(
            members, subscriptions, self._assignor, settings, dead, known.matched, new_number()
        )
        due = self._clock.monotonic() + self._config.probing_rebalance_interval_ms / 1000
        self._follow_up = due if decision.follow_up else math.inf
        return dict(decision.answers)

    async def _dead(
        self, subscriptions: Mapping[str, MemberSubscription], departed: DepartedMembers, *, everybody: bool
    ) -> set[str]:
        """Transactional ids that belong to no member any more. A leader that has not been a member before asks the
        brokers: all instances may have died at once."""
        present = {each.transactional_id for each in subscriptions.values()}
        dead = set(departed.missing(present))
        # A member whose id could not be read may be alive.
        if self._config.exactly_once and departed.first and everybody:
            try:
                dead |= await fencing.open_transactions(self._connection, self._config.application_id)
            except UnreachableError as error:
                log.warning("transactions that dead instances may have left open are not known: %s", error)
        return dead - present

    def take_follow_up(self) -> bool:
        """Return whether the assignor wanted to decide again by now; says so once."""
        due = self._clock.monotonic() > self._follow_up
        if due:
            self._follow_up = math.inf
        return due

    @property
    def topics_changed(self) -> bool:
        """True if this member leads and topics that match the patterns have come or gone since it assigned."""
        return self._led_by is not None and self._catalogue.found().matched != self._led_by.matched

    def forget_follow_up(self) -> None:
        """The group has moved on: the next leader decides anew."""
        self._follow_up = math.inf
        self._led_by = None
