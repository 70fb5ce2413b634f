"""Updates of an aggregation that only repartition topics of other tables take: they wait for the commit, and the last
one of each row goes, unless the user says not to, or sees them on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamsapp import (
    Grouped,
    JoinWindows,
    KGroupedStream,
    KStream,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from streamsapp.dsl.operators.held import UPDATE_BYTES
from streamsapp.dsl.options import Consumed
from streamsapp.outgoing import OutputRecord
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import TopologyTestDriver
from task_parts import feed, raw, task_of

TEXT, LONG = Serdes.string(), Serdes.long()
_READ, _GROUPED, _JOINED = Consumed(TEXT, TEXT), Grouped(TEXT, TEXT), StreamJoined(TEXT, TEXT, TEXT, store="memory")


def _kept(name: str, value_serde: Any = TEXT, emit: Any = None) -> Materialized[Any, Any]:
    return Materialized(name, TEXT, value_serde, store="memory", emit=emit)


def _later(one: str, other: str) -> str:
    return other


def _count(grouped: Any, emit: Any = None) -> KTable[Any, int]:
    table: KTable[Any, int] = grouped.count(_kept("first", LONG, emit))
    return table


def _reduce(grouped: Any, emit: Any = None) -> KTable[Any, str]:
    table: KTable[Any, str] = grouped.reduce(_later, _kept("first", TEXT, emit))
    return table


def _tumbling(grouped: KGroupedStream[str, str]) -> Any:
    return grouped.windowed_by(TimeWindows.of(10))


def _hopping(grouped: KGroupedStream[str, str]) -> Any:
    return grouped.windowed_by(TimeWindows.of(10).advance_by(5))


def _sliding(grouped: KGroupedStream[str, str]) -> Any:
    return grouped.windowed_by(SlidingWindows.of(10))


def _sessions(grouped: KGroupedStream[str, str]) -> Any:
    return grouped.windowed_by(SessionWindows.of(10))


def _program(
    aggregate: Callable[..., KTable[Any, Any]],
    windowed: Callable[[KGroupedStream[str, str]], Any] = lambda grouped: grouped,
    emit: Any = None,
) -> tuple[StreamsBuilder, KTable[Any, Any]]:
    """Returns the first table of a program."""
    builder = StreamsBuilder()
    return builder, aggregate(windowed(builder.stream("in", _READ).group_by_key(_GROUPED)), emit)


def _under_one_key(stream: KStream[Any, Any]) -> KStream[str, str]:
    return stream.map(lambda key, value: ("all", f"{getattr(key, 'start_ms', '')} {value}"))


def _last(stream: KStream[str, str], name: str = "second") -> KTable[str, str]:
    return stream.group_by_key(_GROUPED).reduce(_later, _kept(name))


def _processed(topology: Topology) -> dict[str, int]:
    """Returns how many records go into repartition topics before and at the commit, of six records of two keys."""
    task = task_of(topology)
    _feed(task)
    before = _repartitioned(task.take_output())
    task.emit_all_held()
    return {"before": len(before), "at the commit": len(_repartitioned(task.take_output()))}


def _feed(task: StreamTask) -> None:
    feed(task, [raw(at, at, key=b"k%d" % (at % 2), value=b"v%d" % at) for at in range(6)])
    task.process(task.control, 100)


def _repartitioned(output: list[OutputRecord]) -> list[OutputRecord]:
    return [record for record in output if record[0].endswith("-repartition")]


@pytest.mark.parametrize("aggregate", [_count, _reduce])
@pytest.mark.parametrize(
    ("windowed", "combined", "each"),
    [
        (lambda grouped: grouped, 2, 6),
        (_tumbling, 2, 6),
        (_hopping, 3, 7),
        (_sliding, None, None),
        (_sessions, None, None),
    ],
    ids=["keys", "tumbling", "hopping", "sliding", "sessions"],
)
def test_updates_that_only_another_aggregation_takes_travel_as_one_with_each_commit_unless_the_table_says_update(
    aggregate: Any, windowed: Any, combined: int | None, each: int | None
) -> None:
    sent = {}
    for emit in (None, "update"):
        builder, first = _program(aggregate, windowed, emit)
        _last(_under_one_key(first.to_stream()))
        sent[emit] = _processed(builder.build())
    assert sent[None]["before"] == sent["update"]["at the commit"] == 0
    assert sent[None]["at the commit"] < sent["update"]["before"]
    if combined is not None:
        assert (sent[None]["at the commit"], sent["update"]["before"]) == (combined, each)


def _through_everything_without_state(first: KTable[Any, Any]) -> None:
    stream = first.filter(lambda key, value: True).map_values(str).to_stream()
    stream = stream.filter(lambda key, value: True).filter_not(lambda key, value: False).map_values(str)
    branches = stream.split("b-").branch(lambda key, value: True, "one").default_branch("rest")
    merged = branches["b-one"].merge(branches["b-rest"]).flat_map(lambda key, value: [(str(key), value)])
    _last(merged.flat_map_values(lambda value: [value]).select_key(lambda key, value: "all"))


def _to_table(first: KTable[Any, Any]) -> None:
    _under_one_key(first.to_stream()).to_table(_kept("second"))


def _two_tables(first: KTable[Any, Any]) -> None:
    _last(_under_one_key(first.to_stream()), "second")
    _last(_under_one_key(first.to_stream()), "third")


def _a_topic_that_the_user_asked_for(first: KTable[Any, Any]) -> None:
    _last(_under_one_key(first.to_stream()).repartition())


@pytest.mark.parametrize(
    ("below", "combined"),
    [(_through_everything_without_state, 2), (_to_table, 2), (_two_tables, 4), (_a_topic_that_the_user_asked_for, 2)],
)
def test_operators_without_state_lie_between_the_two_and_there_may_be_several_tables(
    below: Callable[[KTable[Any, Any]], None], combined: int
) -> None:
    builder, first = _program(_count)
    below(first)
    assert _processed(builder.build()) == {"before": 0, "at the commit": combined}


class _Seeing(Processor):
    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record) -> None:
        self._context.forward(record)


def _peeked(first: KTable[Any, Any]) -> None:
    _last(_under_one_key(first.to_stream().peek(lambda key, value: None)))


def _processor(first: KTable[Any, Any]) -> None:
    _last(_under_one_key(first.to_stream().process(_Seeing)))


def _also_sent(first: KTable[Any, Any]) -> None:
    _last(_under_one_key(first.to_stream()))
    first.to_stream().map_values(str).to("out", Produced(TEXT, TEXT))


def _also_joined(first: KTable[Any, Any]) -> None:
    _last(_under_one_key(first.to_stream()))
    first.join(first.map_values(str), lambda one, other: other).to_stream().foreach(lambda key, value: None)


def _suppressed(first: KTable[Any, Any]) -> None:
    limit = Suppressed.until_time_limit(0, Suppressed.BufferConfig.unbounded())
    _last(_under_one_key(first.suppress(limit).to_stream()))


def _kept_on_the_way(first: KTable[Any, Any]) -> None:
    _last(_under_one_key(first.map_values(str, _kept("seen")).to_stream()))


def _windows_below(first: KTable[Any, Any]) -> None:
    grouped = _under_one_key(first.to_stream()).group_by_key(_GROUPED)
    grouped.windowed_by(TimeWindows.of(10)).count(_kept("second", LONG))


def _windows_further_below(first: KTable[Any, Any]) -> None:
    _windows_below(_last(_under_one_key(first.to_stream()), "between"))


def _streams_joined_below(first: KTable[Any, Any]) -> None:
    stream = _under_one_key(first.to_stream())
    stream.join(stream.map_values(str), _later, JoinWindows.of(10), _JOINED)


@pytest.mark.parametrize(
    "below",
    [
        _peeked,
        _processor,
        _also_sent,
        _also_joined,
        _suppressed,
        _kept_on_the_way,
        _windows_below,
        _windows_further_below,
        _streams_joined_below,
    ],
)
def test_updates_that_a_user_sees_or_that_could_come_late_go_at_once(
    below: Callable[[KTable[Any, Any]], None],
) -> None:
    builder, first = _program(_reduce)
    below(first)
    sent = _processed(builder.build())
    assert sent["before"] >= 6
    assert sent["at the commit"] == 0


def test_without_a_repartition_topic_in_between_each_update_goes_at_once() -> None:
    builder, first = _program(_reduce)
    _last(first.to_stream().filter(lambda key, value: True)).to_stream().to("out", Produced(TEXT, TEXT))
    task = task_of(builder.build())
    _feed(task)
    assert len([record for record in task.take_output() if record[0] == "out"]) == 6


def test_each_stream_of_a_cogroup_sends_its_updates_at_once_as_their_order_is_that_of_the_records() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", _READ).group_by_key(_GROUPED)
    table = grouped.cogroup(lambda key, value, last: value).aggregate(str, _kept("first"))
    _last(_under_one_key(table.to_stream()))
    assert _processed(builder.build()) == {"before": 6, "at the commit": 0}


def test_the_rows_of_a_grouped_table_are_combined_further_down_too() -> None:
    builder, first = _program(_reduce)
    second = first.group_by(lambda key, value: (value[:1], value), _GROUPED).reduce(_later, _later, _kept("second"))
    _last(_under_one_key(second.to_stream()), "third")
    topology = builder.build()
    first_task, second_task = task_of(topology), task_of(topology, subtopology=1)
    for _ in range(2):
        _feed(first_task)
        first_task.emit_all_held()
        changes = _repartitioned(first_task.take_output())
        feed(second_task, [raw(n, topic=each[0], key=each[2], value=each[1]) for n, each in enumerate(changes)])
        second_task.process(second_task.control, 100)
        assert _repartitioned(second_task.take_output()) == []
    second_task.emit_all_held()
    assert len(_repartitioned(second_task.take_output())) == 1


def test_a_row_that_came_and_went_within_a_commit_is_not_sent_and_one_that_went_is() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", _READ).group_by_key(_GROUPED)
    first = grouped.reduce(lambda one, other: other if other != "delete" else None, _kept("first"))
    _last(first.to_stream().map(lambda key, value: ("all", f"{key} {value}")))
    task = task_of(builder.build())
    sent = []
    for commit in (["a", "delete"], ["a"], ["b", "delete"]):
        feed(task, [raw(at, at, value=value.encode()) for at, value in enumerate(commit)])
        task.process(task.control, 100)
        task.emit_all_held()
        sent.append([record[1] for record in _repartitioned(task.take_output())])
    assert sent == [[], [b"k a"], [b"k None"]]


def test_updates_are_sent_in_the_order_in_which_they_were_made_with_their_times_and_headers() -> None:
    builder, first = _program(_reduce)
    _last(first.to_stream().map(lambda key, value: ("all", f"{key} {value}")))
    task = task_of(builder.build())
    given = [("a", 7), ("b", 3), ("a", 5), ("c", 1)]
    feed(
        task,
        [
            raw(n, at, key=key.encode(), value=b"%d" % n, headers=[("n", b"%d" % n)])
            for n, (key, at) in enumerate(given)
        ],
    )
    task.process(task.control, 100)
    task.emit_all_held()
    sent = [(record[1], record[6], record[7]) for record in _repartitioned(task.take_output())]
    assert sent == [(b"b 1", 3, [("n", b"1")]), (b"a 2", 7, [("n", b"2")]), (b"c 3", 1, [("n", b"3")])]


def test_a_mapper_that_raises_at_the_commit_fails_the_task_and_is_named() -> None:
    builder, first = _program(_reduce)
    _last(first.to_stream().map(lambda key, value: (value[9], value)))
    task = task_of(builder.build())
    _feed(task)
    with pytest.raises(Exception, match=r"IndexError at node KSTREAM-MAP.*in a result held for the commit"):
        task.emit_all_held()


def test_held_values_ask_for_an_early_commit_and_counts_do_so_by_their_entries() -> None:
    for aggregate, held_bytes in ((_reduce, 2 * UPDATE_BYTES), (_count, 0)):
        builder, first = _program(aggregate)
        _last(_under_one_key(first.to_stream()))
        task = task_of(builder.build())
        _feed(task)
        assert task.unwritten_bytes - task.stores.unwritten_bytes == held_bytes


def test_the_test_driver_sends_each_update() -> None:
    builder, first = _program(_count)
    _last(_under_one_key(first.to_stream())).to_stream().to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for value in ("a", "b", "c"):
            topic.pipe_input("k", value)
        assert driver.create_output_topic("out", TEXT, TEXT).read_values() == [" 1", " 2", " 3"]
