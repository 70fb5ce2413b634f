"""Writes the dead letters of the global stores, whose records belong to no task that would send them (KIP-1034).

Used by the global thread alone. A letter is written, with a producer of its own, before the stores keep the position
behind its record: no crash loses one. A record that is read again makes another letter, and so does each instance.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, Protocol

from confluent_kafka import KafkaError

from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.kafka.producer import AtLeastOnceProducer
from streamsapp.kafka.refusals import production_error
from streamsapp.kafka.sending import AbortableError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.outgoing import OutputRecord
from streamsapp.record import InputRecord
from streamsapp.tasks.dead_letters import DeadLetters

log = logging.getLogger(__name__)

#: Seconds for which a letter is tried before another client tries it, and between looks whether the thread is to end.
DELIVERY, LOOK = 30.0, 0.5


class LetterWriter(Protocol):
    """Takes the dead letters of global stores."""

    def form(self) -> DeadLetters:
        """Returns the form that letters have to have for their topic."""
        ...

    def write(self, letters: list[OutputRecord]) -> bool:
        """Returns whether they are written; ``False`` if the caller is to end before they are."""
        ...


class GlobalLetters:
    """Writes letters to their topic; the producer is made for the first one."""

    def __init__(self, config: StreamsConfig, admin: TopicAdmin) -> None:
        self._config = config
        self._admin = admin
        self._producer: AtLeastOnceProducer | None = None
        #: Says whether the thread is to end; set by it.
        self.stopping: Callable[[], bool] = lambda: False

    def form(self) -> DeadLetters:
        topic, plain = self._config.dead_letter_queue_topic, DeadLetters(self._config.dead_letter_queue_topic)
        if topic is None:
            return plain
        return DeadLetters(topic, min(plain.limit, self._admin.max_message_bytes(topic) or plain.limit))

    def write(self, letters: list[OutputRecord]) -> bool:
        """Raises ``ProductionError`` for a letter that the topic refuses. One that cannot be written in time is tried
        again, perhaps together with some that have been: a broker that is away loses none."""
        while not self.stopping():
            try:
                if self._written(letters):
                    return True
            except AbortableError as error:
                log.warning("the dead letters of global stores could not be written, they are tried again: %s", error)
                self.close()
        return False

    def _written(self, letters: list[OutputRecord]) -> bool:
        producer = self._producer = self._producer or self._new_producer()
        left = letters
        while True:
            left = producer.send(left) if left else left
            producer.no_more()
            if producer.flush(LOOK) and not left:
                return True
            if self.stopping():
                return False

    def _new_producer(self) -> AtLeastOnceProducer:
        properties = client_properties.producer(self._config, delivery_timeout=DELIVERY)
        return AtLeastOnceProducer(properties, _refused)

    def close(self) -> None:
        """Gives the client up; the next letter makes another one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(AbortableError):
                producer.close()


def _refused(error: KafkaError, letter: InputRecord) -> NoReturn:
    raise production_error(error, letter)
