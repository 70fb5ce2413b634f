"""Repeats requests that fail for a passing reason: a topic just created, a leader just elected, a broker restarting.

Called on the polling and restoration threads, for requests that block anyway.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from streamsapp.deadline import Deadline

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long a request is repeated, and the pauses in between, in seconds.
GIVE_UP_AFTER = 120.0
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 2.0

_PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._AUTHENTICATION,  # credentials and certificates may be renewed meanwhile
        KafkaError._WAIT_COORD,
        KafkaError._NOENT,  # "no leaders found": the broker has just started
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)


def repeated(request: Callable[[], T], what: str, deadline: Deadline | None = None) -> T:
    """The result of ``request``; what still fails after ``GIVE_UP_AFTER`` seconds, or for good, is raised. It is not
    repeated after the ``deadline``.

    ``what`` names, for the operator who reads the log, what is being waited for: "reading the committed offsets".
    """
    give_up = time.monotonic() + GIVE_UP_AFTER
    pause = FIRST_PAUSE
    while True:
        try:
            return request()
        except KafkaException as error:
            over = time.monotonic() > give_up or (deadline is not None and deadline.passed)
            if error.args[0].code() not in _PASSING or over:
                raise
            log.info("%s: %s; trying again in %.2f s", what, error.args[0].str(), pause)
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
