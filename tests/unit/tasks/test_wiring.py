"""From nodes to push functions: fan-out, named children, and the life of user code."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp import (
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    Topology,
)
from streamsapp.errors import ProcessingError, StreamsError, TopologyError
from streamsapp.record import Headers
from task_parts import Each, config, forwards, raw, sent, sent_by, task_of, through, topics

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


class Whole:
    """A whole number that is no ``int``, as numpy has them."""

    def __index__(self) -> int:
        return 7


def test_a_timestamp_is_a_whole_number_of_any_type() -> None:
    whole: Any = Whole()
    ((*_, timestamp, _),) = sent(through(lambda context, record: context.forward(record.with_timestamp(whole))))
    assert (timestamp, type(timestamp)) == (7, int)
    half: Any = 1.5
    with pytest.raises(ProcessingError, match=r"at node node.*a timestamp is a whole number .*, and float is not"):
        sent(through(lambda context, record: context.forward(record.with_timestamp(half))))


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


def test_a_timestamp_later_than_any_is_refused_where_it_is_forwarded() -> None:
    with pytest.raises(ProcessingError, match="forwarded by node has the timestamp, later than any can be, 9223372036"):
        sent(through(lambda context, record: context.forward(record.with_timestamp(1 << 63))))


def test_a_supplier_that_raises_is_told_with_node_and_task() -> None:
    down = False

    def supplier() -> Processor:
        if down:
            raise ValueError("no connection")
        return Each(forwards)

    topology = Topology().add_source("source", "in").add_processor("made", supplier, "source")
    down = True

    with pytest.raises(ProcessingError, match=r"ValueError in the supplier of node made.*, task 0_0: no connection"):
        task_of(topology)


def test_what_was_forwarded_keeps_its_headers_when_the_processor_goes_on_with_the_list() -> None:
    def number(context: ProcessorContext, record: Record) -> None:
        for each in (b"0", b"1"):
            record.headers.append(("n", each))
            context.forward(record)

    first, second = (headers for *_, headers in sent(through(number)))
    assert first == [("n", b"0")]
    assert second == [("n", b"0"), ("n", b"1")]


def test_a_copy_of_a_record_has_headers_of_its_own() -> None:
    record = Record("k", "v", 1, [("h", b"1")])
    given: Headers = [("g", b"1")]
    copies = record.with_key("l"), record.with_value("w"), record.with_timestamp(2), record.with_headers(given)

    for each in copies:
        each.headers.append(("more", b""))

    assert record.headers == [("h", b"1")]
    assert given == [("g", b"1")]
