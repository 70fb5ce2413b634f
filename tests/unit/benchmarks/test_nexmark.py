"""Nexmark's events, and each of our queries against the answer in plain Python."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import orjson
import pytest
from benchmarks.cases import select
from benchmarks.nexmark.events import BIDS, EPOCH, events
from benchmarks.nexmark.queries import NEXMARK
from benchmarks.systems.job import Job
from benchmarks.systems.streamsapp_nexmark import QUERIES
from benchmarks.workloads import Message, Outcome, first_messages

from streamsapp import Serdes, StreamsBuilder
from streamsapp.testing import TopologyTestDriver

_BYTES = Serdes.bytes()


def test_events_come_in_their_proportions_and_in_the_order_of_their_times() -> None:
    made = list(islice(events(), 100 * EPOCH))

    assert Counter(event.kind for event in made) == {"person": 100, "auction": 300, "bid": 4600}
    assert [event.timestamp for event in made] == [made[0].timestamp + number for number in range(len(made))]
    for event in made:
        row = orjson.loads(event.value)
        assert (row["dateTime"], row["auction" if event.kind == "bid" else "id"]) == (event.timestamp, event.key)


def test_events_are_those_of_their_seed() -> None:
    def first(seed: int) -> list[bytes]:
        return [event.value for event in islice(events(seed=seed), 200)]

    assert first(3) == first(3)
    assert first(3) != first(4)


def test_a_kind_is_the_same_without_the_others() -> None:
    bids = [event for event in islice(events(), 10 * EPOCH) if event.kind == "bid"]

    assert list(islice(events(("bid",)), 10 * BIDS)) == bids


def test_bids_prefer_hot_auctions_and_bidders() -> None:
    bids = [orjson.loads(event.value) for event in islice(events(("bid",)), 20_000)]

    hot_auctions = sum(bid["auction"] % 100 == 0 for bid in bids)
    hot_bidders = sum(bid["bidder"] % 100 == 1 for bid in bids)
    assert 0.49 < hot_auctions / len(bids) < 0.53
    assert 0.74 < hot_bidders / len(bids) < 0.79


@pytest.mark.parametrize("name", NEXMARK)
def test_a_query_gives_the_right_answer(name: str) -> None:
    expected, found = answers(name, 1_000 if name == "q5" else 3_000)  # each bid of q5 is in five windows

    assert found == expected
    assert expected.items > 0


@pytest.mark.parametrize("name", ["q4", "q19"])
def test_a_wrong_answer_is_seen(name: str) -> None:
    expected, _ = answers(name, 1_500)
    _, found = answers(name, 1_000)

    assert found != expected


def test_each_query_has_a_program_and_is_held_against_kafka_streams() -> None:
    assert {f"nexmark-{name}" for name in NEXMARK} == set(QUERIES)
    ours = select({"NEXMARK"}, {"streamsapp"}, set())
    theirs = {case.variant for case in select({"NEXMARK"}, {"kafka-streams"}, set())}
    assert {case.reference for case in ours} == theirs
    assert len(ours) == 2 * len(NEXMARK)


def answers(name: str, messages: int) -> tuple[Outcome, Outcome]:
    """The outcome that the first messages ask for, and that of our program."""
    workload = NEXMARK[name]
    expected, found = workload.expected(), workload.found()
    job = Job(workload.name, name, "test", "", "input", "output", messages, "", {}, right="right")
    builder = StreamsBuilder()
    QUERIES[workload.name](builder, job)
    with TopologyTestDriver(builder.build()) as driver:
        inputs = {False: driver.create_input_topic("input", _BYTES, _BYTES)}
        if workload.two_topics:
            inputs[True] = driver.create_input_topic("right", _BYTES, _BYTES)
        output = driver.create_output_topic("output", _BYTES, _BYTES)
        for message in first_messages(workload, messages):
            expected.add(message)
            inputs[message.right].pipe_input(message.key, message.value, message.timestamp)
        for record in output.read_records():
            found.add(Message(record.key, record.value))
    return expected.outcome(), found.outcome()
