"""Results that are sent at a commit: the record, the headers and the errors that they go with."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    KGroupedStream,
    KStream,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    TimeWindows,
)
from streamsapp.errors import ProcessingError
from streamsapp.record import Headers, RawRecord, RecordMetadata
from task_parts import Each, raw, sent_by, task_of


def counts(stream: KGroupedStream[str, str], kept: Materialized[Any, Any]) -> KStream[Any, Any]:
    return stream.count(kept).to_stream()


def reduced(stream: KGroupedStream[str, str], kept: Materialized[Any, Any]) -> KStream[Any, Any]:
    return stream.reduce(max, kept).to_stream()


def counts_of_windows(stream: KGroupedStream[str, str], kept: Materialized[Any, Any]) -> KStream[Any, Any]:
    return stream.windowed_by(TimeWindows.of(10)).count(kept).to_stream(lambda window, count: window.key)


def joined_tables(stream: KGroupedStream[str, str], kept: Materialized[Any, Any]) -> KStream[Any, Any]:
    table = stream.reduce(max, Materialized("rows", store="memory"))
    return table.map_values(str).outer_join(table, lambda one, other: one, materialized=kept).to_stream()


def transformed(stream: KGroupedStream[str, str], kept: Materialized[Any, Any]) -> KStream[Any, Any]:
    return counts(stream, kept).map_values(str).filter(lambda key, value: True)


@pytest.mark.parametrize("program", [counts, reduced, counts_of_windows, joined_tables, transformed])
@pytest.mark.parametrize("reader", ["extractor", "processor"])
def test_a_result_sent_at_a_commit_is_part_of_the_last_record_of_its_key(
    program: Callable[[KGroupedStream[str, str], Materialized[Any, Any]], KStream[Any, Any]], reader: str
) -> None:
    seen: list[tuple[str, RecordMetadata | None]] = []

    def extractor(key: str, value: Any, metadata: RecordMetadata | None) -> str:
        seen.append((key, metadata))
        return "out"

    strings = Consumed(Serdes.string(), Serdes.string())
    builder = StreamsBuilder()
    out = program(builder.stream("in", strings).group_by_key(), Materialized("st", store="memory", emit="commit"))
    if reader == "extractor":
        out.map_values(str).to(extractor, Produced(Serdes.string(), Serdes.string()))
    else:
        out.process(lambda: Each(lambda context, record: seen.append((record.key, context.record_metadata))))
    task = task_of(builder.build())

    assert sent_by(task, raw(0, key=b"a"), raw(1, key=b"b"), raw(2, key=b"a")) == []
    assert not seen
    task.emit_all_held()

    assert seen == [("b", ("in", 0, 1)), ("a", ("in", 0, 2))]
    assert task.context.metadata() is None


@pytest.mark.parametrize("program", [counts, reduced, counts_of_windows])
def test_a_step_that_fails_on_a_result_held_for_the_commit_is_named_with_the_records_it_may_be_of(
    program: Callable[[KGroupedStream[str, str], Materialized[Any, Any]], KStream[Any, Any]],
) -> None:
    def fails(value: Any) -> Any:
        raise ValueError("boom")

    strings = Consumed(Serdes.string(), Serdes.string())
    builder = StreamsBuilder()
    out = program(builder.stream("in", strings).group_by_key(), Materialized("st", store="memory", emit="commit"))
    out.map_values(fails, "mapper").to("out", Produced(Serdes.string(), Serdes.string()))
    task = task_of(builder.build())

    sent_by(task, raw(3, key=b"a"), raw(4, key=b"b"), raw(5, key=b"a"))

    records = r"task 0_0, in a result held for the commit, of one of the records in-0@\.\.5: boom"
    with pytest.raises(ProcessingError, match=rf"ValueError at node mapper .*{records}"):
        task.emit_all_held()


def test_no_message_is_held_until_the_commit() -> None:
    strings = Consumed(Serdes.string(), Serdes.string())
    builder = StreamsBuilder()
    kept: Materialized[Any, Any] = Materialized("st", store="memory", emit="commit")
    counts(builder.stream("in", strings).group_by_key(), kept).process(lambda: Each(lambda context, record: None))
    task = task_of(builder.build())

    sent_by(task, raw(0, key=b"a", value=b"x" * 1_000_003), raw(1, key=b"b"))

    assert not [each for each in gc.get_objects() if isinstance(each, RawRecord) and len(each) == 1_000_003]


@pytest.mark.parametrize("program", [counts, reduced, counts_of_windows])
def test_a_result_sent_at_a_commit_has_the_headers_of_the_last_record_of_its_key(
    program: Callable[[KGroupedStream[str, str], Materialized[Any, Any]], KStream[Any, Any]],
) -> None:
    strings = Consumed(Serdes.string(), Serdes.string())
    builder = StreamsBuilder()
    out = program(builder.stream("in", strings).group_by_key(), Materialized("st", store="memory", emit="commit"))
    out.map_values(str).to("out", Produced(Serdes.string(), Serdes.string()))
    task = task_of(builder.build())

    first: Headers = [("h", b"first")]
    last: Headers = [("h", b"last")]
    sent_by(task, raw(0, key=b"a", headers=first), raw(1, key=b"b", headers=first), raw(2, key=b"a"))
    sent_by(task, raw(3, key=b"c"), raw(4, key=b"c", headers=last))
    task.emit_all_held()

    assert [(key, headers) for _, _, key, *_, headers in task.take_output()] == [
        (b"b", first),
        (b"a", None),
        (b"c", last),
    ]
