"""Which sub-topologies stay together in stream time, and how far their tasks may be apart."""

from __future__ import annotations

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    Materialized,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from streamsapp.dsl.kstream import KStream
from streamsapp.topology.time_alignment import TimeGroup, time_groups

TEXT = Serdes.string()


def rekeyed(builder: StreamsBuilder, topic: str = "in") -> KStream[str, str]:
    """A stream whose grouping takes a repartition topic."""
    return builder.stream(topic, Consumed(TEXT, TEXT)).map(lambda key, value: (value, key))


def groups(builder: StreamsBuilder, most_ahead_ms: int | None = None) -> tuple[TimeGroup, ...]:
    return time_groups(builder.build().sub_topologies(), most_ahead_ms)


def peers(*numbers: int, ms: int, above: frozenset[int] = frozenset()) -> TimeGroup:
    return TimeGroup(frozenset(numbers), ms, are_peers=True, above=above)


@pytest.mark.parametrize(
    ("windows", "bound"),
    [
        (TimeWindows.of(60_000, grace=20_000), 10_000),
        (TimeWindows.of(60_000), 0),
        (SlidingWindows.of(60_000, 4_000), 2_000),
        (SessionWindows.of(60_000, grace=4_000), 32_000),
    ],
)
def test_the_bound_is_half_of_what_windows_behind_a_repartition_topic_wait_for(windows: object, bound: int) -> None:
    builder = StreamsBuilder()
    rekeyed(builder).group_by_key().windowed_by(windows).count()  # type: ignore[call-overload]
    assert groups(builder) == (peers(0, ms=bound),)


def test_a_suppression_behind_another_repartition_topic_leaves_a_third_for_each() -> None:
    builder = StreamsBuilder()
    counts = rekeyed(builder).group_by_key().windowed_by(TimeWindows.of(60_000, grace=30_000)).count()
    again = counts.to_stream().map(lambda key, count: (key.key, str(count))).group_by_key(Grouped(TEXT, TEXT))
    again.windowed_by(TimeWindows.of(60_000, grace=30_000)).count().suppress(Suppressed.until_window_closes())
    assert groups(builder) == (peers(0, ms=10_000), peers(1, ms=15_000, above=frozenset({0})))


def test_nothing_waits_where_no_record_can_be_too_late() -> None:
    builder = StreamsBuilder()
    rekeyed(builder).group_by_key().count()
    rekeyed(builder, "b").group_by_key().windowed_by(UnlimitedWindows.of()).count()
    builder.stream("c", Consumed(TEXT, TEXT)).group_by_key().windowed_by(TimeWindows.of(5)).count()
    assert groups(builder) == ()


def test_writers_of_one_join_wait_for_each_other() -> None:
    builder = StreamsBuilder()
    left, right = rekeyed(builder, "a"), rekeyed(builder, "b")
    left.join(right, lambda this, other: this, JoinWindows.of(3_000, grace=1_000))
    found = groups(builder)
    assert found[0] == peers(0, 1, ms=2_000)
    # The join reads both topics: one may be at its end while its records are on their way.
    assert found[1] == TimeGroup(frozenset({2}), 2_000, are_peers=False, above=frozenset({0, 1}))


def test_records_without_a_partner_are_results_after_the_grace_alone() -> None:
    builder = StreamsBuilder()
    left, right = rekeyed(builder, "a"), rekeyed(builder, "b")
    left.left_join(right, lambda this, other: this, JoinWindows.of(3_000, grace=1_000))
    assert groups(builder)[0] == peers(0, 1, ms=500)


def test_deduplication_waits_for_its_grace() -> None:
    builder = StreamsBuilder()
    rekeyed(builder).deduplicate(within=1_000, grace=4_000)
    assert groups(builder) == (peers(0, ms=2_000),)


@pytest.mark.parametrize(("grace", "bound"), [(None, 1_500), (1_000, 500)])
def test_the_other_side_of_a_join_as_of_a_time_waits_for_records_that_are_still_joined(
    grace: int | None, bound: int
) -> None:
    builder = StreamsBuilder()
    left, right = rekeyed(builder, "a"), rekeyed(builder, "b")
    left.join_as_of(right, lambda this, other: this, 3_000, Joined(TEXT, TEXT, TEXT, grace=grace))
    assert groups(builder)[0] == peers(0, 1, ms=bound)


def test_a_join_with_a_topic_of_others_waits_for_what_is_repartitioned() -> None:
    builder = StreamsBuilder()
    other = builder.stream("b", Consumed(TEXT, TEXT))
    rekeyed(builder, "a").join(other, lambda this, that: this, JoinWindows.of(3_000, grace=1_000))
    assert [(set(each.sub_topologies), set(each.above)) for each in groups(builder)] == [({1}, set()), ({0}, {1})]


def test_a_join_with_versions_waits_as_long_as_its_grace() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", Consumed(TEXT, TEXT), Materialized("versions", versioned=60_000))
    rekeyed(builder).join(table, lambda value, row: row, Joined(TEXT, TEXT, grace=5_000))
    assert min(each.most_ahead_ms for each in groups(builder)) == 2_500


def test_a_given_bound_holds_above_every_repartition_topic() -> None:
    builder = StreamsBuilder()
    rekeyed(builder).group_by_key().count()
    builder.stream("c", Consumed(TEXT, TEXT)).group_by_key().windowed_by(TimeWindows.of(5)).count()
    assert groups(builder, 7) == (peers(0, ms=7),)


def test_the_two_sides_of_a_foreign_key_join_are_above_each_other_and_so_neither_is() -> None:
    builder = StreamsBuilder()
    left, right = (builder.table(each, Consumed(TEXT, TEXT)) for each in ("left", "right"))
    left.join(right, str, lambda one, other: one)
    assert all(not each.above for each in groups(builder, 7))
