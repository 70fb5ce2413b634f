"""Asks brokers for what is wanted of assigned partitions: for records, or where a partition begins or ends.

Used on the thread that a consumer belongs to. There is one request at a time for each broker. It is sent when an answer
has come, so the broker answers it while the records of that answer are taken.
"""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

from streamsapp.kafka.fetching import requests
from streamsapp.kafka.fetching.assignment import FetchAssignment
from streamsapp.kafka.fetching.broker import BrokerConnection
from streamsapp.kafka.fetching.broker_connections import BrokerConnections
from streamsapp.kafka.fetching.partition import Doubt, FetchedPartition
from streamsapp.kafka.fetching.session import Asked, AskedFor
from streamsapp.kafka.fetching.settings import FetchSettings

#: When it is looked again at a broker that was asked, or is not to be, in seconds.
_IDLE = 2.0
#: For which a broker waits for records while others of its partitions are not asked for, as there is enough of them;
#: and while partitions are about to be assigned, which are asked for when it has answered.
_SHORT_WAIT = 0.005

_WHICH = {OFFSET_BEGINNING: -2, OFFSET_END: -1}


class FetchRequests:
    """Requests to the brokers of an assignment."""

    def __init__(self, settings: FetchSettings, assignment: FetchAssignment, connections: BrokerConnections) -> None:
        self._settings = settings
        self._assignment = assignment
        self._connections = connections
        #: Until then no broker is to wait for records for long, in monotonic seconds.
        self.short_until = 0.0

    def ask(self, *, at_once: bool = False) -> float:
        """Ask each broker that is free for what is wanted of it. With ``at_once`` the broker is to answer at once, also
        if it has nothing. Returns the seconds until it makes sense to look again. Raises as
        ``FetchAssignment.find_sources`` does."""
        pause = self._assignment.find_sources()
        for source, partitions in self._assignment.by_source.items():
            pause = min(pause, self._ask(source, partitions, at_once=at_once))
        return pause

    def _ask(self, source: int, partitions: list[FetchedPartition], *, at_once: bool) -> float:
        broker = self._connections.to(source, self._assignment.address(source))
        if broker is None:
            return self._settings.reaching.first_pause
        if broker.asked is not None:
            return _IDLE
        now = self._assignment.now()
        if now < broker.times.not_before:
            return broker.times.not_before - now
        wanted = [each for each in partitions if each.is_wanted(now)]
        doubted = [each for each in wanted if each.doubt is Doubt.PAUSES]
        for each in doubted:
            each.doubt = Doubt.ASKS
            self._assignment.forget_leader(each)
        if doubted:
            return 0.0
        if not wanted:
            return min((each.retry_at - now for each in partitions if each.retry_at > now), default=_IDLE)
        without_offset = [each for each in wanted if each.position < 0]
        try:
            if without_offset:
                self._ask_for_offsets(broker, without_offset)
            else:
                self._ask_for_records(source, broker, wanted, at_once=at_once)
        except OSError as error:
            self._connections.lose(source, error)
            self._assignment.lost(source)
        return _IDLE

    def _ask_for_offsets(self, broker: BrokerConnection, wanted: list[FetchedPartition]) -> None:
        asked: Asked = {each.name: (each, each.position, each.epoch, each.leader_epoch) for each in wanted}
        request = requests.list_offsets(self._settings, ((each, _WHICH[each.position]) for each in wanted))
        broker.ask(request, AskedFor(asked, offsets=True))

    def _ask_for_records(
        self, source: int, broker: BrokerConnection, wanted: list[FetchedPartition], *, at_once: bool
    ) -> None:
        session, settings, assignment = broker.session, self._settings, self._assignment
        # Most of what an instance costs that has nothing to do is asking for records.
        waits = 0.0 if at_once else settings.wait * (2 if session.has_nothing else 1)
        has_more = (each.chunks and not each.paused and each.source == source for each in assignment.news.values())
        if assignment.now() < self.short_until or any(has_more):
            waits = min(waits, _SHORT_WAIT)
        begin = broker.requests % len(wanted)  # or the first ones would have all of an answer
        each = settings.of_each(len(assignment.partitions))
        named, forgotten = session.ask(wanted[begin:] + wanted[:begin], each)
        rack = "" if assignment.stays(source) else settings.rack
        request = requests.fetch(settings, session, named, forgotten, waits, each, rack)
        broker.ask(request, AskedFor(session.asked, offsets=False), waits)
