"""``deduplicate``: which records pass, against a model; where a restart, a repeated read and partitions make no
difference."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp import (
    Consumed,
    Grouped,
    KStream,
    Late,
    Produced,
    Serdes,
    StreamsBuilder,
    TopicPartition,
    Topology,
)
from streamsapp.errors import TopologyError
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.task_plan import ConsumedOffset
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
Passed = list[tuple[Any, Any, int]]


def built(**how: Any) -> Topology:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in", Consumed(TEXT, TEXT))
    stream.deduplicate(**how).to("out", Produced(TEXT, TEXT))
    return builder.build()


def passed(driver: TopologyTestDriver, topic: str = "out") -> Passed:
    records = driver.create_output_topic(topic, TEXT, TEXT).read_records()
    return [(each.key, each.value, each.timestamp) for each in records]


def run(topology: Topology, records: Passed, partitions: int = 1) -> tuple[Passed, Passed]:
    """The records that pass, and those of the late topic."""
    with TopologyTestDriver(topology, partitions=partitions) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        for key, value, time in records:
            source.pipe_input(key, value, time)
        return passed(driver), passed(driver, "late")


def model(records: Passed, within: int, grace: int, by: Callable[[Any, Any], Any]) -> tuple[Passed, Passed]:
    """Those that pass, and those that are late."""
    latest, went, late = -1, [], []
    for key, value, time in records:
        latest = max(latest, time)
        identity = by(key, value)
        if identity is None:
            went.append((key, value, time))
        elif time < latest - grace:
            late.append((key, value, time))
        elif not any(by(k, v) == identity and abs(t - time) < within for k, v, t in went):
            went.append((key, value, time))
    return went, late


records_of_few_ids = st.lists(
    st.tuples(st.sampled_from([None, "k", "m"]), st.sampled_from("abc"), st.integers(0, 120)), max_size=60
)


@given(records_of_few_ids, st.integers(1, 40), st.none() | st.integers(0, 60))
def test_records_pass_as_the_model_says(records: Passed, within: int, grace: int | None) -> None:
    expected_grace = within if grace is None else grace
    how: dict[str, Any] = {"within": within, "grace": grace, "late": Late("late")}
    assert run(built(**how), records) == model(records, within, expected_grace, lambda key, value: key)
    for by in (lambda value: value, lambda key, value: value):
        expected = model(records, within, expected_grace, lambda key, value: value)
        assert run(built(by=by, same_key=True, **how), records) == expected


@given(records_of_few_ids, st.integers(1, 40))
def test_two_records_of_an_id_that_pass_are_never_nearer_than_within(records: Passed, within: int) -> None:
    went, _ = run(built(by=lambda value: value, within=within, late=Late("late")), records)
    times = {value: sorted(time for _, other, time in went if other == value) for _, value, _ in went}
    assert all(later - time >= within for each in times.values() for time, later in pairwise(each))


@given(st.lists(st.tuples(st.sampled_from("klmnopq"), st.sampled_from("abc")), max_size=40))
def test_duplicates_under_other_keys_are_found_in_other_partitions(pairs: list[tuple[str, str]]) -> None:
    records = [(key, value, 10) for key, value in pairs]
    went, _ = run(built(by=lambda value: value, within=100, late=Late("late")), records, partitions=4)
    assert sorted(value for _, value, _ in went) == sorted({value for _, value in pairs})


def test_key_value_time_and_headers_stay_and_a_group_below_is_partitioned_by_the_key_again() -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in", Consumed(TEXT, TEXT))
    unique = stream.deduplicate(lambda value: value, within=100, named="unique")
    unique.to("out", Produced(TEXT, TEXT))
    unique.group_by_key(Grouped("per-key", TEXT, TEXT)).count()
    topology = builder.build()
    described = str(topology.describe())
    assert "topic: unique-repartition" in described
    assert "topic: per-key-repartition" in described
    assert "Processor: unique (stores: [unique-passed])" in described
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v", 7, headers=[("h", b"1")])
        (record,) = driver.create_output_topic("out", TEXT, TEXT).read_records()
    assert (record.key, record.value, record.timestamp, record.headers) == ("k", "v", 7, [("h", b"1")])


def test_without_by_and_with_the_same_key_no_topic_is_needed_unless_the_key_was_changed() -> None:
    for how in ({}, {"by": lambda value: value, "same_key": True}):
        assert "repartition" not in str(built(within=10, **how).describe())
        builder = StreamsBuilder()
        stream: KStream[str, str] = builder.stream("in", Consumed(TEXT, TEXT))
        stream.select_key(lambda key, value: value).deduplicate(within=10, **how).to("out")  # type: ignore[arg-type]
        assert "repartition" in str(builder.build().describe())


class Restarted:
    """A driver whose one task begins again, at any committed offset."""

    def __init__(self, driver: TopologyTestDriver) -> None:
        self._driver = driver
        self._source = driver.create_input_topic("in", TEXT, TEXT)

    def pipe(self, records: Passed) -> Passed:
        for key, value, time in records:
            self._source.pipe_input(key, value, time)
        return passed(self._driver)

    def restart(self, offset: int | None = None) -> None:
        """Begins again with all state, behind all records, or with what was committed at an earlier offset."""
        task = self._driver._tasks[0]
        metadata = task.context.processor_metadata.to_commit() if offset is None else {}
        consumed = ConsumedOffset(1000 if offset is None else offset, 0, metadata)
        task.close_user_code()
        task = task.recycled(TaskRole.STANDBY).recycled(TaskRole.ACTIVE)
        task.start_offsets = {TopicPartition("in", 0): ConsumedOffset.committed(consumed.offset, consumed.metadata)}
        task.initialize()
        self._driver._tasks[0] = task


@given(records_of_few_ids, st.integers(1, 40), st.integers(0, 60))
def test_a_restart_changes_nothing(records: Passed, within: int, at: int) -> None:
    with TopologyTestDriver(built(within=within, late=Late("late"))) as driver:
        restarted = Restarted(driver)
        went = restarted.pipe(records[:at])
        restarted.restart()
        went += restarted.pipe(records[at:])
        assert (went, passed(driver, "late")) == model(records, within, within, lambda key, value: key)


def read_again(topology: Topology, records: list[Any]) -> list[list[Any]]:
    """The values that pass in two lives of a task, whose second one reads all records again."""
    found = []
    with TopologyTestDriver(topology) as driver:
        for _ in range(2):
            driver._offsets[TopicPartition("in", 0)] = 0
            found.append([value for _, value, _ in Restarted(driver).pipe(records)])
            Restarted(driver).restart(0)
    return found


def test_a_record_that_is_read_again_passes_again_for_its_result_may_be_lost() -> None:
    first, second = read_again(built(within=100), [("k", "a", 1), ("k", "dup", 1), ("m", "b", 2)])
    assert first == second == ["a", "b"]


def test_of_duplicates_that_come_from_one_record_one_passes_also_when_it_is_read_again() -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in", Consumed(TEXT, TEXT))
    words = stream.flat_map_values(str.split).deduplicate(lambda word: word, within=100, same_key=True)
    words.to("out", Produced(TEXT, TEXT))
    first, second = read_again(builder.build(), [("k", "a b a", 1), ("k", "b c", 1)])
    assert first == second == ["a", "b", "c"]


def test_an_id_that_cannot_be_written_goes_to_the_handler() -> None:
    topology = built(by=lambda value: object(), within=10, same_key=True)
    with TopologyTestDriver(topology) as driver, pytest.raises(Exception, match="KSTREAM-DEDUPLICATE-0000000001"):
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v", 1)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"within": 0}, "within must be at least 1 ms, got 0"),
        ({"within": 5, "grace": -1}, "grace must be at least 0 ms, got -1"),
        ({"within": 5, "by": 3}, "deduplicate needs a function of"),
        ({"within": 5, "by": lambda a, b, c: a}, "deduplicate calls its function with"),
        ({"within": 5, "by_serde": TEXT}, "by_serde and same_key are for by=..."),
        ({"within": 5, "same_key": True}, "by_serde and same_key are for by=..."),
        ({"within": 5, "by": lambda v: v, "by_serde": 3}, r"by_serde=3\): that is not a serde"),
        ({"within": 5, "late": "late"}, "deduplicate takes Late here"),
    ],
)
def test_what_cannot_be_meant_is_refused(how: dict[str, Any], told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        built(**how)
