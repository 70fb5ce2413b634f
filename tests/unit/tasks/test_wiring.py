"""From nodes to push functions: fan-out, named children, sinks, dynamic sinks, partitioners, life of user code."""

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
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
    Topology,
)
from streamsapp.errors import ProcessingError, SerializationError, StreamsError, TopologyError
from streamsapp.processor.api import StreamPartitioner
from streamsapp.record import Headers, RawRecord, RecordMetadata
from streamsapp.tasks.output import OutputRecord
from streamsapp.tasks.stream_task import StreamTask
from task_parts import Each, config, feed, forwards, raw, task_of, through


def sent(topology: Topology, *records: Any, settings: StreamsConfig | None = None) -> list[OutputRecord]:
    """What a task of the topology sends for these records."""
    task = task_of(topology, settings=settings)
    return sent_by(task, *records)


def sent_by(task: StreamTask, *records: Any) -> list[OutputRecord]:
    feed(task, records or [raw(0, 5)])
    while task.buffered_records:
        task.process(task.control, 100)
    return task.take_output()


def topics(output: list[OutputRecord]) -> list[str]:
    return [record[0] for record in output]


# ---- children ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_forward_reaches_the_children_in_the_order_they_were_added(count: int) -> None:
    topology = Topology().add_source("source", "in").add_processor("node", lambda: Each(forwards), "source")
    for number in range(count):
        topology.add_sink(f"sink{number}", f"out{number}", "node")

    assert topics(sent(topology)) == [f"out{number}" for number in range(count)]


def test_a_record_goes_down_one_branch_completely_before_it_enters_the_next() -> None:
    topology = Topology().add_source("source", "in")
    for branch in "ab":
        topology.add_processor(branch, lambda: Each(forwards), "source")
        topology.add_sink(f"{branch}1", f"{branch}1", branch)
        topology.add_sink(f"{branch}2", f"{branch}2", branch)

    assert topics(sent(topology)) == ["a1", "a2", "b1", "b2"]


def test_forwarding_to_a_named_child_reaches_only_that_one() -> None:
    topology = Topology().add_source("source", "in")
    topology.add_processor("node", lambda: Each(lambda context, record: context.forward(record, "second")), "source")
    topology.add_sink("first", "out1", "node").add_sink("second", "out2", "node")

    assert topics(sent(topology)) == ["out2"]


def test_forwarding_to_an_unknown_child_names_the_children_there_are() -> None:
    topology = through(lambda context, record: context.forward(record, "nowhere"))

    with pytest.raises(ProcessingError, match="node node has no child 'nowhere' to forward to; its children: sink"):
        sent(topology)


def test_a_node_without_children_leads_nowhere() -> None:
    topology = Topology().add_source("source", "in").add_processor("last", lambda: Each(forwards), "source")

    assert sent(topology) == []


def test_a_negative_timestamp_is_refused_where_it_is_forwarded() -> None:
    with pytest.raises(ProcessingError, match="forwarded by node has the negative timestamp -1"):
        sent(through(lambda context, record: context.forward(record.with_timestamp(-1))))


def test_an_error_is_reported_for_the_node_where_it_arose() -> None:
    def fail(context: ProcessorContext, record: Record) -> None:
        raise ValueError("boom")

    topology = Topology().add_source("source", "in")
    topology.add_processor("upper", lambda: Each(forwards), "source")
    topology.add_processor("lower", lambda: Each(fail), "upper")

    with pytest.raises(ProcessingError, match="ValueError at node lower"):
        sent(topology)


def test_a_record_dropped_in_one_branch_still_takes_the_other() -> None:
    def fail(context: ProcessorContext, record: Record) -> None:
        raise ValueError("boom")

    topology = Topology().add_source("source", "in")
    topology.add_processor("bad", lambda: Each(fail), "source").add_processor("good", lambda: Each(forwards), "source")
    topology.add_sink("sink", "out", "good")

    assert topics(sent(topology, settings=config(processing_exception_handler="continue"))) == ["out"]


# ---- sinks -------------------------------------------------------------------------------------------------------


def test_a_sink_keeps_key_value_timestamp_and_headers() -> None:
    record = raw(0, 5, key=b"a", value=b"b", headers=[("h", b"1")])

    assert sent(through(), record) == [("out", b"b", b"a", -1, None, None, 5, [("h", b"1")])]


def test_null_keys_and_values_are_written_as_nulls() -> None:
    assert sent(through(), raw(0, 5, key=None, value=None)) == [("out", None, None, -1, None, None, 5, None)]


def test_a_value_the_sinks_serde_cannot_write_goes_to_the_production_handler() -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", "out", "source", value_serializer=Serdes.long())

    with pytest.raises(SerializationError, match="cannot serialise a record for topic out at node sink"):
        sent(topology)
    assert sent(topology, settings=config(production_exception_handler="continue")) == []


def test_a_header_whose_name_utf_8_cannot_express_goes_to_the_production_handler_and_not_to_the_client() -> None:
    record = raw(0, 5, headers=[("plain", b"1"), ("\ud800", b"1")])

    with pytest.raises(SerializationError, match=r"header '\\ud800'"):
        sent(through(), record)
    assert sent(through(), record, settings=config(production_exception_handler="continue")) == []


def partitioned(partitioner: StreamPartitioner) -> Topology:
    return Topology().add_source("source", "in").add_sink("sink", "out", "source", partitioner=partitioner)


def test_a_partitioner_chooses_among_the_partitions_the_topic_has() -> None:
    told = []

    def partitioner(topic: str, key: str, value: str, count: int) -> int:
        told.append((topic, key, value, count))
        return 3

    ((_, _, _, partition, *_),) = sent(partitioned(partitioner))

    assert partition == 3
    assert told == [("out", "k", "v", 4)]


def test_a_partitioner_that_gives_none_leaves_the_choice_to_the_keys_hash() -> None:
    ((_, _, _, partition, *_),) = sent(partitioned(lambda topic, key, value, count: None))

    assert partition == -1


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_partition_the_topic_does_not_have_is_refused(wrong: int) -> None:
    for chosen in (wrong, {0, wrong}):
        with pytest.raises(ProcessingError, match=f"chose partition {wrong} of topic out, which has 4"):
            sent(partitioned(lambda topic, key, value, count, chosen=chosen: chosen))  # type: ignore[misc]


def test_a_partitioner_sends_a_record_to_each_partition_that_it_chooses() -> None:
    def partitioner(topic: str, key: str, value: str, count: int) -> set[int]:
        return {"all": set(range(count)), "two": {3, 1}}.get(value, set())

    out = sent(partitioned(partitioner), raw(0, value=b"all"), raw(1, value=b"none"), raw(2, value=b"two"))

    assert [partition for _, _, _, partition, *_ in out] == [0, 1, 2, 3, 1, 3]
    assert [value for _, value, *_ in out] == [*[b"all"] * 4, b"two", b"two"]


class Index:
    """A whole number that is no ``int``, as numpy's are."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number


@pytest.mark.parametrize("chosen", [Index(2), [Index(2)], {Index(2), 2}, iter([2])])
def test_a_partition_is_whatever_python_takes_for_an_index(chosen: Any) -> None:
    ((_, _, _, partition, *_),) = sent(partitioned(lambda topic, key, value, count: chosen))

    assert type(partition) is int
    assert partition == 2


@pytest.mark.parametrize("chosen", [0.0, [0.0], "0", b"\0", [None]])
def test_the_handler_for_user_code_is_asked_about_a_choice_that_is_no_partition(chosen: Any) -> None:
    topology = partitioned(lambda topic, key, value, count: chosen)

    with pytest.raises(ProcessingError, match="TypeError at node sink") as failure:
        sent(topology)
    assert f"the partitioner chose {chosen!r} of topic out; return the number of a partition" in str(failure.value)
    assert sent(topology, settings=config(processing_exception_handler="continue")) == []


def test_a_record_whose_partitioner_fails_is_dropped_where_the_handler_for_user_code_says_so() -> None:
    def partitioner(topic: str, key: str, value: str, count: int) -> int:
        return int(value)

    records = raw(0, value=b"x"), raw(1, value=b"2")
    with pytest.raises(ProcessingError, match="ValueError at node sink"):
        sent(partitioned(partitioner), *records)
    out = sent(partitioned(partitioner), *records, settings=config(processing_exception_handler="continue"))
    assert [partition for _, _, _, partition, *_ in out] == [2]


def test_a_topic_extractor_sends_each_record_to_the_topic_it_names() -> None:
    def extractor(key: str, value: str, metadata: RecordMetadata | None) -> str:
        assert metadata is not None
        return f"{value}-{metadata.topic}-{metadata.offset}"

    topology = Topology().add_source("source", "in").add_sink("sink", extractor, "source")

    assert topics(sent(topology, raw(0, value=b"x"), raw(1, value=b"y"))) == ["x-in-0", "y-in-1"]


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

    assert seen == [("a", ("in", 0, 2)), ("b", ("in", 0, 1))]
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
        (b"a", None),
        (b"b", first),
        (b"c", last),
    ]


def test_a_topic_extractor_that_names_no_topic_fails_the_record() -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", lambda k, v, m: None, "source")  # type: ignore[arg-type,return-value]

    with pytest.raises(ProcessingError, match="extractor of sink gave None, not a topic name"):
        sent(topology)


# ---- user code ---------------------------------------------------------------------------------------------------


class Logged(Processor):
    """Writes down what happens to it."""

    def __init__(self, name: str, log: list[str], *, fails_to_close: bool = False) -> None:
        self.name, self._log, self._fails_to_close = name, log, fails_to_close

    def init(self, context: ProcessorContext) -> None:
        self._log.append(f"init {self.name}")

    def process(self, record: Record) -> None:
        self._log.append(f"process {self.name}")

    def close(self) -> None:
        self._log.append(f"close {self.name}")
        if self._fails_to_close:
            raise ValueError(self.name)


def test_processors_are_initialised_parents_first() -> None:
    log: list[str] = []
    topology = Topology().add_source("source", "in")
    topology.add_processor("parent", lambda: Logged("parent", log), "source")
    topology.add_processor("child", lambda: Logged("child", log), "parent")

    task_of(topology)

    assert log == ["init parent", "init child"]


def test_everything_is_closed_even_if_a_processor_fails_to() -> None:
    log: list[str] = []
    topology = Topology().add_source("source", "in")
    topology.add_processor("one", lambda: Logged("one", log, fails_to_close=True), "source")
    topology.add_processor("two", lambda: Logged("two", log, fails_to_close=True), "source")
    task = task_of(topology)
    log.clear()

    with pytest.raises(ValueError, match="one"):
        task.close_user_code()
    assert log == ["close one", "close two"]


def test_closing_twice_closes_user_code_once() -> None:
    log: list[str] = []
    topology = Topology().add_source("source", "in").add_processor("node", lambda: Logged("node", log), "source")
    task = task_of(topology)

    task.close_user_code()
    task.close_user_code()

    assert log.count("close node") == 1


def test_a_supplier_that_stops_giving_processors_is_named_when_the_task_is_made() -> None:
    made: list[object] = [Each(forwards), Each(forwards), "not a processor"]
    topology = Topology().add_source("source", "in")
    topology.add_processor("node", lambda: made.pop(0), "source")  # type: ignore[arg-type,return-value]

    with pytest.raises(TopologyError, match="supplier of processor node gave a str; it must give a Processor"):
        task_of(topology)


def test_a_store_that_is_not_connected_is_refused_with_the_way_to_connect_it() -> None:
    topology = through(lambda context, record: context.get_state_store("counts"))

    with pytest.raises(ProcessingError, match=r"connect_processor_and_state_stores\('node', 'counts'\)"):
        sent(topology)


def test_a_connected_store_is_the_tasks_own() -> None:
    def count(context: ProcessorContext, record: Record) -> None:
        store = context.get_state_store("counts")
        store.put(record.key, (store.get(record.key) or 0) + 1)
        context.forward(record.with_value(str(store.get(record.key))))

    topology = through(count)
    supplier = Stores.in_memory_key_value_store("counts")
    topology.add_state_store(Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.long()), "node")

    first = sent(topology, raw(0), raw(1))
    second = sent(topology, raw(0))

    assert [record[1] for record in first + second] == [b"1", b"2", b"1"]


def test_the_context_tells_time_and_place() -> None:
    told: list[tuple[Any, ...]] = []

    def tell(context: ProcessorContext, record: Record) -> None:
        told.append((context.application_id, str(context.task_id), context.current_stream_time_ms))
        told.append((context.current_system_time_ms, context.record_metadata))

    sent(through(tell), raw(3, 9))

    assert told == [("app", "0_0", 9), (0, ("in", 0, 3))]


def test_asking_for_a_commit_is_noted_until_the_epoch_ends() -> None:
    task = task_of(through(lambda context, record: context.commit()))
    sent_by(task)
    assert task.context.commit_requested

    task.freeze()

    assert not task.context.commit_requested


@pytest.mark.parametrize("kind", PunctuationType)
def test_a_schedule_needs_an_interval_of_a_millisecond_at_least(kind: PunctuationType) -> None:
    def schedule(context: ProcessorContext, record: Record) -> None:
        context.schedule(0, kind, print)

    with pytest.raises(StreamsError, match="processor node schedules every 0 ms; the least is 1 ms"):
        sent(through(schedule))
