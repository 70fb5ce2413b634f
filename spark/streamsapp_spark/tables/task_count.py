"""Finds out how many tasks a store has, as far as it can be known. Used on the driver, by readers.

Snapshots alone do not show it: a task that no instance ever had has none. The notes of a bootstrap do, and so do the
option ``partitions`` and Kafka, which is asked only if the option says so: tables are planned without it.
"""

from __future__ import annotations

import logging

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from streamsapp.config import client_properties
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.record import TaskId
from streamsapp.remote.bootstraps import Bootstraps
from streamsapp.topology.internal_topics import changelog_topic
from streamsapp_spark.tables.application import StoredApplication

log = logging.getLogger(__name__)

KAFKA = "kafka"
_TIMEOUT = 30.0


def task_count(app: StoredApplication, store: str, option: str | None) -> int | None:
    """Returns how many tasks have a part of a store; ``None``, with a warning, if it is not known."""
    found = _bootstrapped(app, store) if option is None else _by_option(app, store, option)
    if found is None:
        log.warning(
            "how many tasks store %s has is not known: if the last ones never took a snapshot, their rows are missing "
            "here; say option('partitions', N), or option('partitions', 'kafka') to have Kafka asked", store,
        )  # fmt: skip
    return found


def _by_option(app: StoredApplication, store: str, option: str) -> int:
    if option == KAFKA:
        return _in_kafka(app, store)
    if not (option.isascii() and option.isdecimal() and 0 < int(option[:10]) < 1 << 31):
        raise ConfigError(f"option 'partitions': expected {KAFKA!r}, or the number of tasks, got {option!r:.100}")
    return int(option)


def _bootstrapped(app: StoredApplication, store: str) -> int | None:
    newest = Bootstraps(app.objects, app.config.application_id).newest()
    if newest is None or not newest.is_done:
        return None
    tasks = [TaskId.parse(each.task) for each in newest.done().tasks]
    return sum(each.subtopology == app.part_with(store).id for each in tasks)


def _in_kafka(app: StoredApplication, store: str) -> int:
    topic = changelog_topic(app.config.application_id, app.builder(store))
    try:
        found = AdminClient(client_properties.admin(app.config)).list_topics(topic, timeout=_TIMEOUT).topics[topic]
    except KafkaException as error:
        raise StreamsError(
            f"option 'partitions': Kafka does not describe {topic}: {error.args[0].str()}; give the number of tasks"
        ) from error
    if found.error is not None or not found.partitions:
        why = (
            "" if found.error is None or found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART else f": {found.error}"
        )
        raise StreamsError(f"option 'partitions': there is no topic {topic} in Kafka{why}; give the number of tasks")
    return len(found.partitions)
