"""The leaders of partitions, as the brokers last reported them. The sender's thread asks; any thread reads."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError

from streamsapp.brokers.connection import Connection, Node
from streamsapp.brokers.errors import RefusedError, RefusedTlsError, UnreachableError
from streamsapp.brokers.messages.metadata import MetadataResponseTopic
from streamsapp.kafka.client_log import client_log
from streamsapp.kafka.producing import wire

log = client_log(__name__)

#: How long one request may take, in seconds.
_REQUEST = 5.0
#: Between two tries, in seconds.
_PAUSE = 0.1
#: A topic that was just made may not be known to every broker yet. The client waits so long, in seconds, for a missing
#: topic, as librdkafka does (``topic.metadata.propagation.max.ms``).
PROPAGATION = 30.0

_REFUSED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION})


class Topics:
    """The topics that were asked for, as far as they are known."""

    def __init__(self, connection: Connection, on_partitions: Callable[[str, int], None], age: float) -> None:
        """``on_partitions`` gets the number of partitions of a topic. Brokers are asked again after ``age`` seconds,
        though nothing has gone wrong."""
        self._connection = connection
        self._age = max(_PAUSE, age)
        self._on_partitions = on_partitions
        self._leaders: dict[wire.Name, Node] = {}
        self._wanted: set[str] = set()
        #: Topics that cannot be written to, with the error's code, and when brokers reported it first and last.
        self._errors: dict[str, tuple[int, float, float]] = {}
        self._stale = False
        self._asked = 0.0
        #: How often the brokers answered.
        self.answers = 0
        #: Since when brokers refuse the credentials, and in which words.
        self.refused: tuple[float, str] | None = None

    def want(self, topic: str) -> None:
        """Ask for a topic with the next request. Any thread."""
        self._wanted.add(topic)
        self._stale = True

    @property
    def wanted(self) -> bool:
        """True if any topic is."""
        return bool(self._wanted)

    def error(self, topic: str) -> int:
        """The error for which nothing can be written to the topic; 0: it can, or it is not known yet. Any thread."""
        code, first, last = self._errors.get(topic, (0, 0.0, 0.0))
        return code if code in _REFUSED or last - first >= PROPAGATION else 0

    def leader(self, name: wire.Name) -> Node | None:
        """The broker to which its records go; ``None`` if none is known."""
        return self._leaders.get(name)

    def forget(self, name: wire.Name) -> None:
        """The broker is not its leader, or does not answer."""
        self._stale = True
        self._leaders.pop(name, None)

    def due_in(self, now: float) -> float:
        """Seconds until the brokers are to be asked."""
        if not self._wanted:
            return self._age
        return max(0.0, self._asked + (_PAUSE if self._stale else self._age) - now)

    async def refresh(self, now: float) -> None:
        """Ask for all topics that are wanted."""
        self._stale, self._asked = False, now
        try:
            answer = await self._connection.ask_any(lambda: wire.topics(list(self._wanted)), _REQUEST, apart=True)
        except UnreachableError as error:
            log.debug("the leaders of partitions are not known: %s", error)
            self._stale = True
            # Certificates may be renewed while the records wait.
            refused = isinstance(error, RefusedError) and not isinstance(error, RefusedTlsError)
            self.refused = (self.refused or (now, str(error))) if refused else None
            return
        self.refused = None
        self._connection.learn(answer)
        for topic in answer.topics:
            self._take(topic, now)
        self.answers += 1

    def _take(self, topic: MetadataResponseTopic, now: float) -> None:
        known_as = topic.name or ""  # later versions alone leave it out
        if topic.error_code:
            first = self._errors.get(known_as, (0, now, now))[1]
            self._errors[known_as] = (topic.error_code, first, now)
            self._stale = self._stale or topic.error_code not in _REFUSED
            return
        count = len(topic.partitions)
        if {each.partition_index for each in topic.partitions} != {*range(count)}:
            log.warning("a broker described topic %s without some of its partitions; the request is repeated", known_as)
            self._stale = True
            return
        self._errors.pop(known_as, None)
        for each in topic.partitions:
            name = (known_as, each.partition_index)
            if each.leader_id >= 0:
                self._leaders[name] = each.leader_id
            else:
                self.forget(name)
        self._on_partitions(known_as, count)
