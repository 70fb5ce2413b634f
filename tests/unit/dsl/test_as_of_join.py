"""``join_as_of``: each record with the latest one of the other stream that is not later, against a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp import Consumed, Joined, KStream, Late, Produced, Serdes, StreamsBuilder, StreamsConfig, Topology
from streamsapp.errors import TopologyError
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
#: Topic, key, value and time of each record.
Input = list[tuple[str, Any, Any, int]]


def streams(builder: StreamsBuilder) -> tuple[KStream[str, str], KStream[str, str]]:
    return builder.stream("left", Consumed(TEXT, TEXT)), builder.stream("right", Consumed(TEXT, TEXT))


def built(within: int, joined: Joined[Any, Any, Any] | None = None, *, left: bool = False, **how: Any) -> Topology:
    builder = StreamsBuilder()
    lefts, rights = streams(builder)
    join = lefts.left_join_as_of if left else lefts.join_as_of
    join(rights, lambda one, other: f"{one}/{other}", within, joined, **how).to("out", Produced(TEXT, TEXT))
    return builder.build()


def run(topology: Topology, records: Input, config: StreamsConfig | None = None) -> list[tuple[Any, str, int]]:
    with TopologyTestDriver(topology, config) as driver:
        topics = {each: driver.create_input_topic(each, TEXT, TEXT) for each in ("left", "right")}
        for number, (topic, key, value, time) in enumerate(records):
            topics[topic].pipe_input(key, value, time, headers=[("number", b"%d" % number)])
        found = driver.create_output_topic("out", TEXT, TEXT).read_records()
    numbered = {value: number for number, (topic, _, value, _) in enumerate(records) if topic == "left"}
    for each in found:
        assert each.headers == [("number", b"%d" % numbered[each.value.split("/")[0]])], "they are the left record's"
    return [(each.key, each.value, each.timestamp) for each in found]


def best(rights: list[tuple[Any, str, int]], key: Any, time: int, within: int) -> str | None:
    """The latest of the right records; of one time the last."""
    found = [(at, number, value) for number, (k, value, at) in enumerate(rights) if k == key]
    return max((each for each in found if time - within <= each[0] <= time), default=(0, 0, None))[2]


records_of_both = st.lists(
    st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("km"), st.integers(0, 60)), max_size=50
)


def named(records: list[tuple[str, str, int]]) -> Input:
    return [(topic, key, f"{topic[0]}{number}", time) for number, (topic, key, time) in enumerate(records)]


@given(records_of_both, st.integers(0, 30), st.booleans())
def test_a_record_is_joined_with_what_has_come_by_then(
    unnamed: list[tuple[str, str, int]], within: int, left: bool
) -> None:
    records, latest = named(unnamed), -1
    rights: list[tuple[Any, str, int]] = []
    expected = []
    for topic, key, value, time in records:
        if topic == "right":
            latest = max(latest, time)
            rights = [*rights, (key, value, time)]
            rights = [each for each in rights if each[2] >= latest - within]  # others are kept no longer
            continue
        other = best(rights, key, time, within)
        if other is not None or left:
            expected.append((key, f"{value}/{other}", time))
    assert run(built(within, left=left), records) == expected


@given(records_of_both, st.integers(0, 30), st.integers(0, 20), st.booleans())
def test_with_a_grace_records_that_come_late_by_less_change_nothing(
    unnamed: list[tuple[str, str, int]], within: int, grace: int, left: bool
) -> None:
    in_time: Input = []
    latest = 0
    for record in named(unnamed):
        latest = max(latest, record[3])
        if record[3] >= latest - grace:
            in_time.append(record)
    end = latest + grace + 1
    in_time.append(("right", "end", "r", end))
    rights = [(key, value, time) for topic, key, value, time in in_time if topic == "right"]
    expected = []
    for topic, key, value, time in in_time:
        other = best(rights, key, time, within)
        if topic == "left" and (other is not None or left):
            expected.append((key, f"{value}/{other}", time))
    found = run(built(within, Joined(grace=grace), left=left), in_time)
    assert sorted(found) == sorted(expected)
    assert [time for _, _, time in found] == sorted(time for _, _, time in found), "they go on in the order of time"


def test_time_that_jumps_on_the_right_side_loses_no_partner() -> None:
    records: Input = [("right", "k", "r", 5), ("left", "k", "l", 7), ("right", "k", "far", 1_000_000)]
    assert run(built(10, Joined(grace=20)), records) == [("k", "l/r", 7)]


def test_records_without_key_or_value() -> None:
    records: Input = [
        ("right", None, "r", 1),
        ("right", "k", "r", 1),
        ("right", "k", None, 2),
        ("left", None, "alone", 3),
        ("left", "k", None, 3),
        ("left", "k", "l", 3),
    ]
    assert run(built(10), records) == [("k", "l/r", 3)]
    assert run(built(10, left=True), records) == [(None, "alone/None", 3), ("k", "l/r", 3)]
    assert run(built(10, Joined(grace=0), left=True), records) == [(None, "alone/None", 3), ("k", "l/r", 3)]


def test_a_record_of_the_other_stream_that_is_too_old_is_counted_and_goes_aside() -> None:
    with TopologyTestDriver(built(10, Joined(grace=5), late=Late("late"))) as driver:
        rights = driver.create_input_topic("right", TEXT, TEXT)
        for time in (100, 85, 84):
            rights.pipe_input("k", f"at {time}", time)
        assert driver.create_output_topic("late", TEXT, TEXT).read_values() == ["at 84"]
        assert driver._tasks[0].context.dropped_records == 1


def test_a_joiner_may_want_the_key_and_one_that_fails_goes_to_the_handler() -> None:
    builder = StreamsBuilder()
    lefts, rights = streams(builder)

    def joiner(key: str, one: str, other: str) -> str:
        if other == "bad":
            raise ValueError(other)
        return f"{one}/{key}{other}"

    lefts.join_as_of(rights, joiner, 10, Joined(grace=2)).to("out", Produced(TEXT, TEXT))
    config = StreamsConfig(
        application_id="app", bootstrap_servers="unused:9092", processing_exception_handler="continue"
    )
    records: Input = [("right", "k", "bad", 1), ("left", "k", "a", 1), ("right", "k", "r", 2), ("left", "k", "b", 2)]
    records.append(("right", "m", "end", 50))
    assert run(builder.build(), records, config) == [("k", "b/kr", 2)]


def test_changed_keys_are_repartitioned_names_follow_the_joins_and_both_sides_are_copartitioned() -> None:
    builder = StreamsBuilder()
    lefts, rights = streams(builder)
    by_value = lefts.select_key(lambda key, value: value)
    by_value.join_as_of(rights, lambda one, other: one, 10, Joined("priced", TEXT, TEXT, TEXT, grace=1))
    described = str(builder.build().describe())
    assert "topic: priced-left-repartition" in described
    assert "Processor: priced-right (stores: [priced-right-store])" in described
    assert "Processor: priced (stores: [priced-Buffer, priced-right-store])" in described
    with pytest.raises(Exception, match="partitions"):
        TopologyTestDriver(built(10), partitions={"left": 2, "right": 3})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: built(-1), "within must be at least 0 ms, got -1"),
        (lambda: built(1, Joined(grace=-1)), r"Joined\(grace=-1 ms\): a grace is not negative"),
        (lambda: built(1, late="late"), "join_as_of takes Late here"),
        (lambda: built(1, "name"), "join_as_of takes Joined here"),  # type: ignore[arg-type]
        (lambda: other().left_join_as_of(other().to_table(), lambda a, b: a, 1), "joined with a KStream, not KTable"),  # type: ignore[arg-type]
        (lambda: other().join_as_of(other(), lambda a, b: a, 1), "comes from another StreamsBuilder"),
        (lambda: built(1, Joined(TEXT, TEXT, Serdes.long())), "its values are string, which Joined"),
    ],
)
def test_what_cannot_be_joined_is_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        make()


def other() -> KStream[str, str]:
    return StreamsBuilder().stream("in", Consumed(TEXT, TEXT))
