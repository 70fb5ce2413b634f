"""``spark.readStream.format("streamsapp")``: the changes of a store, from its changelog.

A batch is a range of offsets per partition of the changelog, up to where records are committed. Spark's checkpoint has
the ranges, so a batch that is run again has the same records, unless Kafka has compacted some of them meanwhile: what
is overwritten may be left out, the last record of a key never. Deletions are removed by Kafka, too, a while after they
were written (``delete.retention.ms``); a query that was away for longer is refused, as it may have missed some.

Offsets are planned in a Python process of Spark's on the driver's machine; records are read in workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from confluent_kafka import KafkaException
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.errors import ConfigError, StreamsError, TopicError
from streamsapp.kafka.reachability import check_reachable
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp.topology.internal_topics import changelog_topic
from streamsapp_spark.replay.task_inputs import from_kafka
from streamsapp_spark.tables.application import ManifestPlace, StoredApplication, stored_application
from streamsapp_spark.tables.columns import StoreColumns, arrow_batches
from streamsapp_spark.tables.feed_rows import ChangelogRows

T = TypeVar("T")

_ANEW = "begin with a new checkpointLocation, and with a new target: it has what was read so far"
#: The time for which an offset stays the same where nothing is written, as a part of the time that deletions are kept.
_FRESH = 10


class FeedOffset(msgspec.Struct, frozen=True):
    """The place of a feed, as Spark's checkpoint has it."""

    #: The next record of each partition. A partition that is not there begins with its first record.
    offsets: dict[str, int] = {}
    #: The changelog's id, and the time when it was asked, in milliseconds; none before the first batch.
    topic: str = ""
    at: int = 0

    @classmethod
    def of(cls, document: Any) -> FeedOffset:
        """Raises ``StreamsError`` for what no feed has written."""
        try:
            found = msgspec.convert(document, cls)  # noqa: TID251 - a decoded document of one thread
        except msgspec.ValidationError as error:
            raise StreamsError(f"the checkpoint has no offsets of a change feed: {error}; {_ANEW}") from error
        if not all(name.isascii() and name.isdecimal() and offset >= 0 for name, offset in found.offsets.items()):
            raise StreamsError(f"the checkpoint has offsets that no changelog has: {document!r:.200}; {_ANEW}")
        return found

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


@dataclass(frozen=True)
class Feed:
    """The store whose changes are read, as plain data."""

    place: ManifestPlace
    columns: StoreColumns
    #: The first offset by partition; of others, the first record that there is.
    starting: Mapping[str, int]


@dataclass
class FeedPartition(InputPartition):
    """A range of one task's changelog."""

    partition: int
    start: int
    until: int
    #: The time, in milliseconds, after which deletions in the range may be gone; ``None`` where they never are.
    before: int | None


def starting_offsets(text: str | None) -> dict[str, int]:
    """Reads the option ``startingOffsets``. Raises ``ConfigError`` for a value that it does not have."""
    if text in (None, "earliest"):
        return {}
    try:
        found: dict[str, int] = msgspec.json.decode(str(text), type=dict[str, int])
    except msgspec.MsgspecError as error:
        raise ConfigError(
            "option 'startingOffsets': expected 'earliest', or the first offset by partition as JSON "
            f'({{"0": 120, "1": 7}}), got {text!r:.100}: {error}. There is no \'latest\': a first batch that is run '
            "again would be another one; the column 'offset' of the table has the offsets of its snapshots"
        ) from error
    for name, offset in found.items():
        if not (name.isascii() and name.isdecimal()) or offset < 0:
            raise ConfigError(f"option 'startingOffsets': {name!r:.30}: {offset} is no offset of a partition")
    return found


class FeedReader(DataSourceStreamReader):
    """Reads a feed: it plans on the driver, and reads in workers."""

    def __init__(self, feed: Feed, schema: pa.Schema) -> None:
        self._feed, self._schema = feed, schema
        self._last: FeedOffset | None = None
        #: Where a query that is to catch up ends.
        self._end: FeedOffset | None = None

    # ---- on the driver -----------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the same at every call: Spark asks again when it runs a first batch once more."""
        return FeedOffset(dict(self._feed.starting)).document()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fixes the end of a query that is to catch up."""
        self._end = self._committed()

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the place up to where records are committed, or were when the query began that is to catch up. Spark
        4.0 and 4.1 give no arguments, and newer ones no limit, as the reader asks for none."""
        return (self._end or self._committed()).document()

    def _committed(self) -> FeedOffset:
        """Stays the same while nothing is written, but for the time that it notes now and then."""
        changelog, last = self._changelog, self._last
        kept, now = changelog.deletions_kept_ms, SystemClock().now_ms()
        ends = changelog.ends()
        if last is None or last.offsets != ends or (kept is not None and now - last.at > kept // _FRESH):
            self._last = FeedOffset(ends, changelog.topic_id(), now)
        assert self._last is not None
        return self._last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns the ranges of a batch. Raises ``StreamsError`` if records or deletions may be missing in them."""
        return list(self._changelog.ranges(FeedOffset.of(start), FeedOffset.of(end)))

    @cached_property
    def _changelog(self) -> Changelog:
        return Changelog(stored_application(self._feed.place), self._feed.columns.store)

    def __getstate__(self) -> dict[str, Any]:
        """Workers get neither the client nor what was asked."""
        return {"_feed": self._feed, "_schema": self._schema, "_last": None, "_end": None}

    # ---- in workers --------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one range."""
        assert isinstance(partition, FeedPartition)
        app, columns = stored_application(self._feed.place), self._feed.columns
        builder = app.builder(columns.store, with_snapshots=False)
        topic = changelog_topic(app.config.application_id, builder)
        task = str(TaskId(app.part_with(columns.store).id, partition.partition))
        rows = ChangelogRows(builder, topic, app.config, columns, task)
        of = HistoryRange(topic, partition.partition, partition.start, partition.until)
        for records in from_kafka(of, app.config, committed_only=True, remedy=_ANEW):
            yield from arrow_batches(rows.rows(records), self._schema, task, columns)
        refuse_late(of.of, partition.before)


try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:
    pass  # before Spark 4.2, which ends after one batch then
else:
    # Else Spark would run one batch: after a query that was killed the one that was under way, and nothing more.
    SupportsTriggerAvailableNow.register(FeedReader)


def refuse_late(partition: TopicPartition, before: int | None) -> None:
    """Raises ``StreamsError`` if deletions may have been removed before they were read."""
    if before is not None and SystemClock().now_ms() > before:
        raise StreamsError(
            f"deletions of {partition} may be gone: Kafka keeps them for delete.retention.ms, and the query was away, "
            f"or its batch took, for longer; {_ANEW}, or have the topic keep them for longer"
        )


class Changelog:
    """The offsets and the settings of a store's changelog, as Kafka has them."""

    def __init__(self, app: StoredApplication, store: str) -> None:
        builder = app.builder(store, with_snapshots=False)
        self._topic = changelog_topic(app.config.application_id, builder)
        check_reachable(app.config.bootstrap_servers)
        self._admin = TopicAdmin(client_properties.admin(app.config))
        count = self._admin.partition_counts().get(self._topic)
        if count is None:
            raise TopicError(
                f"store {store} has no changelog yet: {self._admin.why_missing(self._topic)}. The application makes it "
                "when it starts"
            )
        self._partitions = [TopicPartition(self._topic, number) for number in range(count)]

    def ends(self) -> dict[str, int]:
        """Returns by partition the offset behind the last record that is committed."""
        return self._offsets(earliest=False)

    def topic_id(self) -> str:
        return self._asked(lambda: self._admin.topic_ids([self._topic]))[self._topic]

    @cached_property
    def deletions_kept_ms(self) -> int | None:
        """Returns for how long Kafka keeps a deletion; ``None`` if it does not compact the topic."""
        if "compact" not in self._asked(lambda: self._admin.setting(self._topic, "cleanup.policy")):
            return None
        return int(self._asked(lambda: self._admin.setting(self._topic, "delete.retention.ms")))

    def ranges(self, start: FeedOffset, end: FeedOffset) -> Iterator[FeedPartition]:
        """Yields the partitions that have something to read."""
        if len({end.topic, self.topic_id(), start.topic or end.topic}) > 1:
            raise StreamsError(f"topic {self._topic} was deleted and made anew since the feed began; {_ANEW}")
        firsts, kept = self._offsets(earliest=True), self.deletions_kept_ms
        before = start.at + kept if kept is not None and start.at else None
        for unknown in sorted(start.offsets.keys() - firsts.keys()):
            raise ConfigError(
                f"option 'startingOffsets': {self._topic} has no partition {unknown}; it has {len(firsts)}"
            )
        for of in self._partitions:
            number = str(of.partition)
            first, until = firsts[number], end.offsets.get(number, 0)
            begin = start.offsets.get(
                number, min(first, until)
            )  # records of a first batch may be gone when it runs again
            if begin == until:
                continue
            self._check(of, begin, until, first)
            refuse_late(of, before)
            yield FeedPartition(of.partition, begin, until, before)

    def _check(self, of: TopicPartition, begin: int, until: int, first: int) -> None:
        if begin < first:
            raise StreamsError(
                f"{of} begins with offset {first}, and the feed is at {begin}: Kafka deleted records; {_ANEW}"
            )
        if begin > until:
            raise StreamsError(f"{of} ends at offset {until}, and the feed is at {begin}: records are lost; {_ANEW}")

    def _offsets(self, *, earliest: bool) -> dict[str, int]:
        found = self._asked(
            lambda: self._admin.request_offsets(self._partitions, earliest=earliest, stable=not earliest).result()
        )
        return {str(partition.partition): offset for partition, offset in sorted(found.items())}

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return repeated(ask, f"asking for {self._topic}")
        except KafkaException as error:
            raise TopicError(f"Kafka does not describe {self._topic}: {error.args[0].str()}") from error
