"""Compares the snapshots that a reader is about to read with what the application has committed. On the driver.

Kafka has more than snapshots do while an application runs, and where it was killed before it had written the last
ones. The first is a warning, the second an error: nothing would ever write newer ones.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from confluent_kafka import KafkaException

from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ConfigError, StreamsError, TopicError
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.kafka.reachability import check_reachable
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.snapshot import Snapshot
from streamsapp.runtime.snapshot_lag import SnapshotLag, SnapshotTask, snapshot_lags
from streamsapp.topology.internal_topics import changelog_topic
from streamsapp_spark.snapshots.download import NoSnapshotError, newest
from streamsapp_spark.tables.application import StoredApplication

log = logging.getLogger(__name__)

WARN, REFUSE, IGNORE = "warn", "refuse", "ignore"
#: Manifests that are read at a time.
_READERS = 8
#: Tasks that a message names.
_NAMED = 5


def checked(option: str | None, as_of: str | None) -> str | None:
    """The option ``behind``. Raises ``ConfigError`` for a value that it does not have."""
    if option not in (None, WARN, REFUSE, IGNORE):
        raise ConfigError(f"option 'behind': expected {WARN!r}, {REFUSE!r} or {IGNORE!r}, got {option!r:.100}")
    if option in (WARN, REFUSE) and as_of is not None:
        raise ConfigError("option 'behind': 'asOf' asks for snapshots of the past, which are behind; leave one out")
    return option


def store_lags(app: StoredApplication, store: str) -> list[SnapshotLag] | None:
    """Returns the distance of every task of a store, in order: Kafka says how many there are. ``None``, with the
    reason in a warning, if it does not answer. Raises ``StreamsError`` for a snapshot that cannot be used."""
    config, builder = app.config, app.builder(store)
    topic = changelog_topic(config.application_id, builder)
    try:
        check_reachable(config.bootstrap_servers)
        with closing(TopicAdmin(client_properties.admin(config))) as admin:
            count = admin.partition_counts().get(topic)
            if count is None:
                raise TopicError(f"there is no topic {topic}")
            part = app.part_with(store).id
            found = _newest(app, [TaskId(part, number) for number in range(count)])
            changelogs = {task_id: TopicPartition(topic, task_id.partition) for task_id in found}
            is_source = builder.changelog_topic is not None
            tasks = [
                SnapshotTask(task_id, found[task_id], {store: each}, [each] if is_source else [])
                for task_id, each in changelogs.items()
            ]
            return snapshot_lags(config, admin, SystemClock(), tasks, _committed(config))
    except KafkaException as error:
        why = error.args[0].str()
    except (ConfigError, TopicError, OSError) as error:
        why = str(error)
    log.warning("store %s: Kafka does not say whether snapshots have all that is committed: %s", store, why)
    return None


def _committed(config: StreamsConfig) -> dict[TopicPartition, int]:
    try:
        return GroupAdmin(config).committed()
    except StreamsError as error:
        raise TopicError(str(error)) from error


def tell(app: StoredApplication, store: str, lags: Sequence[SnapshotLag] | None, option: str | None) -> None:
    """Warns of tasks whose snapshots lack something of the store, or raises ``StreamsError``: by ``option``, or where
    it says nothing, by whether the application runs."""
    if lags is None:
        if option == REFUSE:
            raise StreamsError(f"store {store}: whether its snapshots have all that is committed is not known")
        return
    behind = [lag for lag in lags if lag.stores]
    if not behind:
        return
    told = "; ".join(map(str, behind[:_NAMED])) + ("; ..." if len(behind) > _NAMED else "")
    told = f"store {store}: snapshots of {len(behind)} of {len(lags)} tasks do not have all that is committed: {told}"
    if option == WARN or (option is None and _may_run(app)):
        log.warning("%s", told)
        return
    remedy = "the application has to run to write newer ones, with trigger availableNow until it ends with 0"
    raise StreamsError(f"{told}; {remedy}. What there is, is read with option('behind', 'warn')")


def _may_run(app: StoredApplication) -> bool:
    """Says whether newer snapshots may be on their way. A driver of Spark's is no member of the group."""
    spec = app.manifest.spec
    if spec.engine == "spark" and not spec.spark.catches_up:
        return True
    try:
        return GroupAdmin(app.config).activity() is not None
    except StreamsError as error:
        log.warning("whether the application runs is not known: %s", error)
        return False


def _newest(app: StoredApplication, tasks: Sequence[TaskId]) -> dict[TaskId, Snapshot | None]:
    def of(task_id: TaskId) -> Snapshot | None:
        try:
            return newest(app.chain(task_id))
        except NoSnapshotError:
            return None

    with ThreadPoolExecutor(_READERS) as pool:
        return dict(zip(tasks, pool.map(of, tasks), strict=True))
