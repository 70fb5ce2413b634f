"""Records of a topic are rows with the types of its serdes; one that is no such record is named."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamsapp import Consumed, Produced, Serdes, StreamsBuilder, Topology
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.tasks.fed_records import fed_record
from streamsapp_spark.sinks.rows import TopicRows


def topology() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(Serdes.string(), Serdes.long()))
    words.to("typed", Produced(Serdes.string(), Serdes.long()))
    words.to(lambda key, value, context: key)
    return builder.build()


def long(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_a_record_is_a_row_with_its_place() -> None:
    rows = TopicRows(topology(), "typed")
    assert rows.ddl == (
        "`key` string, `value` bigint, `timestamp` timestamp_ltz, `partition` int, `offset` bigint, "
        "`headers` array<struct<`key`: string, `value`: binary>>"
    )
    records = [
        fed_record("typed", 1, 7, b"a", long(3), 1_500, [("h", b"x"), ("h", None)]),
        fed_record("typed", 1, 9, None, None, 2_000, None),
    ]
    batch = rows.batch(records)
    assert batch.schema == rows.schema
    headers = [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        ("a", 3, datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC), 1, 7, headers),
        (None, None, datetime(1970, 1, 1, 0, 0, 2, 0, UTC), 1, 9, None),
    ]


def test_a_record_that_the_serdes_cannot_read_is_named() -> None:
    rows = TopicRows(topology(), "typed")
    sound = fed_record("typed", 0, 1, b"a", long(1), 1, None)
    with pytest.raises(StreamsError, match=r"record typed-0@2: its value does not fit the column, bigint: "):
        rows.batch([sound, fed_record("typed", 0, 2, b"a", b"short", 1, None)])
    with pytest.raises(StreamsError, match=r"record typed-0@3: its key does not fit the column, string: "):
        rows.batch([sound, fed_record("typed", 0, 3, b"\xff", long(1), 1, None)])


def test_a_topic_that_is_not_written_under_a_name_of_its_own_is_refused() -> None:
    with pytest.raises(ConfigError, match="the topology writes no topic 'words'; it writes: typed"):
        TopicRows(topology(), "words")
