"""Clients of librdkafka's that begin with their bootstrap servers again after they have lost all brokers (KIP-899).

A broker that is out of touch with its controller for a moment, as after it stood still, may tell that there are no
brokers at all. librdkafka takes its word, forgets those it knew, also the bootstrap servers, and has nobody to ask any
more: each request fails, for good (confluentinc/librdkafka, issue 5301; seen with 2.16.1). It is told the bootstrap
servers once more when a request fails without an answer; not often, as it keeps each text that it is told.

Called on whichever thread uses the client.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from ctypes import c_char_p, c_int, c_void_p
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from streamsapp.kafka.librdkafka_handle import handle_of, librdkafka

T = TypeVar("T")

#: Seconds before a client is told them again.
PAUSE = 10.0

_add_brokers = librdkafka({"rd_kafka_brokers_add": (c_int, [c_void_p, c_char_p])}).rd_kafka_brokers_add


class _Rebootstrapping:
    """A client with what it takes; the class of confluent-kafka comes second."""

    def __init__(self, conf: Mapping[str, Any], **options: Any) -> None:
        super().__init__(dict(conf), **options)  # type: ignore[call-arg]  # of the client's class
        self._servers = str(conf.get("bootstrap.servers", ""))
        self._told_at = -math.inf

    def list_topics(self, *arguments: Any, **options: Any) -> Any:
        """See the client's class."""
        return self.asked(lambda: super(_Rebootstrapping, self).list_topics(*arguments, **options))  # type: ignore[misc]

    def asked(self, request: Callable[[], T]) -> T:
        """The result of a request of this client's; one that no broker has answered finds some the next time."""
        try:
            return request()
        except KafkaException as error:
            if error.args[0].code() < 0:  # the client's own, and no broker's
                self.rebootstrap()
            raise

    def rebootstrap(self) -> None:
        """Have the client begin with the bootstrap servers, unless it was told them a moment ago."""
        now = time.monotonic()
        if now - self._told_at < PAUSE:
            return
        self._told_at = now
        _add_brokers(handle_of(self), self._servers.encode())  # type: ignore[arg-type]


class RebootstrappingConsumer(_Rebootstrapping, Consumer):
    """``Consumer`` that rebootstraps."""


class RebootstrappingProducer(_Rebootstrapping, Producer):
    """``Producer`` that rebootstraps."""


class RebootstrappingAdminClient(_Rebootstrapping, AdminClient):
    """``AdminClient`` that rebootstraps."""
