"""Probes at the nodes of a task: they count and show passing records, which go on as if no probe looked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from streamsapp.processor.operator import nowhere
from streamsapp.record import TopicPartition
from streamsapp.tasks.probes import KEPT, TAKEN, Probe
from streamsapp.tasks.record_queue import ProcessingControl
from streamsapp.tasks.shown_values import LONGEST, shown_value
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import TopologyTestDriver
from task_parts import forwards, raw, task_of, through
from whole_language import whole_language

TEXT = Serdes.string()
IN = TopicPartition("in", 0)


def branching() -> Topology:
    """Two branches, a table that sends its changes at commits, and a node of several children."""
    builder = StreamsBuilder()
    words = builder.stream("in", Consumed(TEXT, TEXT))
    branches = words.split("by-").branch(lambda key, value: value == "a", "a").default_branch("rest")
    branches["by-a"].map_values(str.upper).to("upper", Produced(TEXT, TEXT))
    branches["by-rest"].group_by_key().count(Materialized("counts", store="memory", emit="commit")).to_stream().to(
        "counts", Produced(TEXT, Serdes.long())
    )
    words.peek(lambda key, value: None).to("all", Produced(TEXT, TEXT))
    return builder.build()


class Looked:
    """A task that is fed and looked at; its clock goes a second from one look to the next."""

    def __init__(self, topology: Topology) -> None:
        self.task: StreamTask = task_of(topology)
        self._offsets = count()
        self._seconds = 0.0

    def look(self, budget: int = 100, tapped: str | None = None, seconds: float = 1) -> Mapping[str, Probe]:
        self._seconds += seconds
        return self.task.probes.look(budget, tapped, processed=self.task.processed_records, now=self._seconds)

    def process(self, values: Sequence[str], at_once: int = 10_000) -> list[Any]:
        records = [raw(next(self._offsets), value=value.encode()) for value in values]
        for begin in range(0, len(records), at_once):
            self.task.add_records(IN, records[begin : begin + at_once])
            while self.task.buffered_records:
                self.task.process(ProcessingControl(), at_once)
        self.task.emit_held(1000)
        return [(topic, key, value) for topic, value, key, *_ in self.task.take_output()]


def test_the_probe_of_every_kind_of_node_is_on_the_way_of_records() -> None:
    config = StreamsConfig(
        application_id="app", bootstrap_servers="none:9092", default_key_serde=TEXT, default_value_serde=TEXT
    )
    with TopologyTestDriver(whole_language(), config) as driver:
        wired = driver._tasks[0]._wired
        probed: list[str] = []
        wiring = wired.probed(lambda name, push: probed.append(name) or push)  # type: ignore[func-returns-value]
        assert set(probed) == {name for name, push in wired.plain.pushes.items() if push is not nowhere}
        assert wiring.pushes.keys() == wired.plain.pushes.keys()
        assert len(probed) > 60


def rates(probes: Mapping[str, Probe]) -> dict[str, float | None]:
    return {name: probe.rate for name, probe in probes.items()}


def test_every_node_that_records_pass_has_its_rate() -> None:
    it = Looked(branching())
    it.look()
    it.process(["a", "b", "b", "c"])

    found = rates(it.look())

    assert found == {
        "KSTREAM-SOURCE-0000000000": 4,
        "by-": 4,
        "by-a": 1,
        "KSTREAM-MAPVALUES-0000000004": 1,
        "KSTREAM-SINK-0000000005": 1,
        "by-rest": 3,
        "KSTREAM-AGGREGATE-0000000006": 3,
        "KTABLE-TOSTREAM-0000000007": 1,
        "KSTREAM-SINK-0000000008": 1,
        "KSTREAM-PEEK-0000000009": 4,
        "KSTREAM-SINK-0000000010": 4,
    }


@pytest.mark.parametrize("budget", [1, 2, 1000])
def test_records_come_out_as_if_nobody_looked(budget: int) -> None:
    looked, alone = Looked(branching()), Looked(branching())
    values = ["a", "b", "a", "c", "b"]

    for _ in range(3):
        looked.look(budget, tapped="KSTREAM-MAPVALUES-0000000004")
        assert looked.process(values, at_once=2) == alone.process(values, at_once=2)


def test_records_take_the_plain_wiring_after_so_many_and_those_stand_for_all() -> None:
    it = Looked(branching())
    queue = it.task.queues[IN]
    plain = queue.input.push
    it.look(budget=6)
    assert queue.input.push is plain  # only the thread that processes records changes it

    it.process(["a", "b", "b"] * 10)

    assert queue.input.push is not plain  # but for results that are sent apart from records
    it.task.process(ProcessingControl(), 1)
    assert queue.input.push is plain
    found = it.look()
    rates = {name: round(probe.rate or 0) for name, probe in found.items()}
    assert rates["KSTREAM-SOURCE-0000000000"] == 30
    assert (rates["by-a"], rates["by-rest"]) == (10, 20)
    # The one result that is sent at the commit came later, and was counted.
    assert min(rates.values()) == 1


def test_a_task_that_nobody_has_looked_at_has_no_probe() -> None:
    it = Looked(through())
    pushes = [queue.input.push for queue in it.task.queues.values()]
    it.process(["v"])
    assert [queue.input.push for queue in it.task.queues.values()] == pushes
    assert "through" not in {push.__name__ for push in pushes}


def test_functions_of_generated_code_which_has_no_module_are_no_obstacle() -> None:
    generated: dict[str, Any] = {}
    exec("def every(key, value): return True", generated)  # noqa: S102 - as a program that makes programs does
    assert generated["every"].__module__ is None
    builder = StreamsBuilder()
    builder.stream("in", Consumed(TEXT, TEXT)).filter(generated["every"]).to("out", Produced(TEXT, TEXT))
    it = Looked(builder.build())

    it.look()
    it.process(["a"])

    assert {probe.rate for probe in it.look().values()} == {1.0}


def test_the_last_records_of_the_tapped_node_are_remembered_and_no_others() -> None:
    it = Looked(through(forwards))
    for number in range(KEPT):
        it.look(tapped="sink")
        it.process([f"{number}-{each}" for each in range(2 * TAKEN)])

    nodes = it.look()

    last = [record.value for record in nodes["sink"].last]
    assert last == [f"{number}-{each}" for number in range(KEPT - KEPT // TAKEN, KEPT) for each in range(TAKEN)]
    assert not nodes["node"].last


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        (b"text", "text"),
        (b"\xff\x00", "0x ff 00"),
        ("ä".encode() * LONGEST, "ä" * (LONGEST // 2)),
        ({"a": [1, 2]}, "{'a': [1, 2]}"),
        ("x" * 1_000_000, "x" * LONGEST + "…"),
        (10**5000, "(int: ValueError)"),
        ("half a pair: \ud83d", "half a pair: \\ud83d"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_any_kind_is_shown_as_a_short_text(value: object, shown: str) -> None:
    assert shown_value(value) == shown


def test_however_many_parts_a_value_has_only_so_many_are_looked_at() -> None:
    looked: list[object] = []

    class Leaf:
        def __repr__(self) -> str:
            looked.append(self)
            return "leaf"

    value: object = Leaf()
    for _ in range(3):
        value = [value] * 50
    assert shown_value(value).startswith("[[[leaf, leaf, ")
    assert len(looked) == 20**3
    assert shown_value([value]).startswith("[[[[...], [...], ")
    assert len(looked) == 20**3
