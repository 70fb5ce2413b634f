"""``spark.readStream.format("streamsapp")``: the changes of a store, from its changelog.

A batch is a range of offsets per partition of the changelog, up to where records are committed. Spark's checkpoint has
the ranges, so a batch that is run again has the same records, unless Kafka has compacted some of them meanwhile: what
is overwritten may be left out, the last record of a key never. Deletions are removed by Kafka, too, a while after they
were written (``delete.retention.ms``); a query that was away for longer is refused, as it may have missed some.

Offsets are planned in a Python process of Spark's on the driver's machine; records are read in workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from streamsapp.clock import SystemClock
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp.topology.internal_topics import changelog_topic
from streamsapp_spark.replay.task_inputs import from_kafka
from streamsapp_spark.tables.application import ManifestPlace, StoredApplication, stored_application
from streamsapp_spark.tables.columns import StoreColumns, arrow_batches
from streamsapp_spark.tables.committed_topic import CommittedTopic, TopicOffset
from streamsapp_spark.tables.feed_rows import ChangelogRows

_ANEW = "begin with a new checkpointLocation, and with a new target: it has what was read so far"
#: The time for which an offset stays the same where nothing is written, as a part of the time that deletions are kept.
_FRESH = 10


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

    range: HistoryRange
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
        self._last: TopicOffset | None = None
        #: Where a query that is to catch up ends.
        self._end: TopicOffset | None = None

    # ---- on the driver -----------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the same at every call: Spark asks again when it runs a first batch once more."""
        return TopicOffset(dict(self._feed.starting)).document()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fixes the end of a query that is to catch up."""
        self._end = self._committed()

    def latestOffset(self, start: object = None, limit: object = None) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the place up to where records are committed, or were when the query began that is to catch up. Spark
        4.0 and 4.1 give no arguments, and newer ones no limit, as the reader asks for none."""
        return (self._end or self._committed()).document()

    def _committed(self) -> TopicOffset:
        """Stays the same while nothing is written, but for the time that it notes now and then."""
        changelog, last = self._changelog, self._last
        kept, now = changelog.deletions_kept_ms, SystemClock().now_ms()
        ends = changelog.ends()
        if last is None or last.offsets != ends or (kept is not None and now - last.at > kept // _FRESH):
            self._last = TopicOffset(ends, changelog.topic_id(), now)
        assert self._last is not None
        return self._last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns the ranges of a batch. Raises ``StreamsError`` if records or deletions may be missing in them."""
        offsets = (TopicOffset.of(each, "a change feed", _ANEW) for each in (start, end))
        return list(self._changelog.partitions(*offsets))

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
        of = partition.range
        app, columns = stored_application(self._feed.place), self._feed.columns
        builder = app.builder(columns.store, with_snapshots=False)
        task = str(TaskId(app.part_with(columns.store).id, of.partition))
        rows = ChangelogRows(builder, of.topic, app.config, columns, task)
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


class Changelog(CommittedTopic):
    """A store's changelog, from which Kafka removes deletions after a while."""

    def __init__(self, app: StoredApplication, store: str) -> None:
        topic = changelog_topic(app.config.application_id, app.builder(store, with_snapshots=False))
        remedy = "The application makes it when it starts"
        super().__init__(app.config, topic, missing=f"store {store} has no changelog yet", remedy=remedy, anew=_ANEW)

    @cached_property
    def deletions_kept_ms(self) -> int | None:
        """Returns for how long Kafka keeps a deletion; ``None`` if it does not compact the topic."""
        if "compact" not in self.setting("cleanup.policy"):
            return None
        return int(self.setting("delete.retention.ms"))

    def partitions(self, start: TopicOffset, end: TopicOffset) -> Iterator[FeedPartition]:
        """Yields the partitions that have something to read."""
        kept = self.deletions_kept_ms
        before = start.at + kept if kept is not None and start.at else None
        ranges = list(self.ranges(start, end))
        for unknown in sorted(start.offsets.keys() - self.numbers):
            raise ConfigError(
                f"option 'startingOffsets': {self.topic} has no partition {unknown}; it has {len(self.numbers)}"
            )
        for found in ranges:
            refuse_late(found.of, before)
            yield FeedPartition(found, before)
