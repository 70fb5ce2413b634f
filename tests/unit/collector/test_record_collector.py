"""Output on its way to the producer: order, epochs, and slowing down when the broker is slow."""

from __future__ import annotations

import threading

import pytest

from streamsapp.collector.record_collector import RecordCollector
from streamsapp.outgoing import OutputRecord

SOON = 60.0


def records(*values: str) -> list[OutputRecord]:
    return [("out", value.encode(), None, -1, None, None, 0, None) for value in values]


class Producer:
    """Takes at most ``room`` records, then leaves the rest over."""

    def __init__(self, room: int = 1_000) -> None:
        self.room = room
        self.sent: list[str] = []

    def send(self, batch: list[OutputRecord]) -> list[OutputRecord]:
        taken, rest = batch[: self.room], batch[self.room :]
        self.room -= len(taken)
        self.sent += [(value or b"").decode() for _, value, *_ in taken]
        return rest


def test_sends_in_the_order_in_which_records_were_added() -> None:
    collector, producer = RecordCollector(100), Producer()
    collector.add(records("a", "b"), epoch=0)
    collector.add(records("c"), epoch=0)

    assert collector.drain(producer.send, 100) == 3
    assert producer.sent == ["a", "b", "c"]
    assert collector.drained
    assert len(collector) == 0


def test_stops_after_about_as_many_records_as_asked_for() -> None:
    collector, producer = RecordCollector(100), Producer()
    for name in "abc":
        collector.add(records(name, name), epoch=0)

    assert collector.drain(producer.send, 3) == 4
    assert len(collector) == 2
    assert not collector.drained


def test_what_a_full_producer_leaves_over_is_sent_first_the_next_time() -> None:
    collector, producer = RecordCollector(100), Producer(room=2)
    collector.add(records("a", "b", "c"), epoch=0)
    collector.add(records("d"), epoch=0)

    assert collector.drain(producer.send, 100) == 2
    assert len(collector) == 2

    producer.room = 100
    collector.drain(producer.send, 100)
    assert producer.sent == ["a", "b", "c", "d"]


def test_records_of_the_next_epoch_wait_until_the_commit_is_through() -> None:
    collector, producer = RecordCollector(100), Producer()
    collector.add(records("next"), epoch=1)
    collector.add(records("now"), epoch=0)

    collector.drain(producer.send, 100)
    assert producer.sent == ["now"]
    assert collector.drained
    assert len(collector) == 1

    collector.roll()
    assert not collector.drained
    collector.drain(producer.send, 100)
    assert producer.sent == ["now", "next"]


def test_what_was_left_of_the_old_epoch_goes_before_the_new_one() -> None:
    collector, producer = RecordCollector(100), Producer()
    collector.add(records("next"), epoch=1)
    collector.add(records("now"), epoch=0)

    collector.roll()
    collector.add(records("later"), epoch=1)
    collector.drain(producer.send, 100)

    assert producer.sent == ["now", "next", "later"]


def test_there_is_room_below_the_capacity_and_none_at_it() -> None:
    collector = RecordCollector(2)
    collector.add(records("a"), epoch=0)
    assert collector.wait_for_room(0)

    collector.add(records("b"), epoch=0)
    assert not collector.wait_for_room(0)


def test_whoever_sends_is_told_of_every_output_once_enough_records_wait() -> None:
    told: list[int] = []
    collector = RecordCollector(100, lambda: told.append(len(collector)), enough=3)
    for value in "abcd":
        collector.add(records(value), epoch=0)
    assert told == [3, 4]
    assert collector.enough

    collector.drain(Producer().send, 100)
    assert not collector.enough
    collector.add(records("e"), epoch=0)
    assert told == [3, 4]


@pytest.mark.parametrize("prompt", [True, False])
def test_whoever_sends_is_told_of_few_records_when_no_more_come_if_somebody_can_read_them(prompt: bool) -> None:
    told: list[int] = []
    collector = RecordCollector(100, lambda: told.append(len(collector)), enough=3, prompt=prompt)
    collector.no_more()
    collector.add(records("a"), epoch=0)
    assert told == []

    collector.no_more()
    assert told == ([1] if prompt else [])


def test_records_of_several_tasks_are_sent_together() -> None:
    collector, sent = RecordCollector(100), list[int]()

    def send(given: list[OutputRecord]) -> list[OutputRecord]:
        sent.append(len(given))
        return given[3:]

    for value in "abcde":
        collector.add(records(value, value), epoch=0)
    assert collector.drain(send, 100) == 3
    assert collector.drain(send, 4) == 3
    assert sent == [10, 7]
    assert len(collector) == 4


def test_waiting_records_of_the_next_epoch_take_room_too() -> None:
    collector = RecordCollector(1)

    collector.add(records("next"), epoch=1)

    assert not collector.wait_for_room(0)


def test_a_waiting_thread_goes_on_as_soon_as_there_is_room() -> None:
    collector, producer = RecordCollector(1), Producer()
    collector.add(records("a"), epoch=0)
    got_room: list[bool] = []
    waiter = threading.Thread(target=lambda: got_room.append(collector.wait_for_room(60.0)))
    waiter.start()

    collector.drain(producer.send, 1)
    waiter.join(SOON)

    assert got_room == [True]


def test_a_reset_drops_everything_and_begins_at_the_epoch_the_tasks_are_in() -> None:
    collector, producer = RecordCollector(2), Producer()
    collector.add(records("now"), epoch=0)
    collector.add(records("next"), epoch=1)

    collector.reset(epoch=3)

    assert len(collector) == 0
    assert collector.wait_for_room(0)
    collector.add(records("again"), epoch=3)
    collector.add(records("after"), epoch=4)
    collector.drain(producer.send, 100)
    assert producer.sent == ["again"]


def test_whoever_waits_for_the_last_results_is_not_told_of_them() -> None:
    told: list[int] = []
    collector = RecordCollector(10, lambda: told.append(1), enough=3)
    with collector.awaited():
        collector.add(records("a"), epoch=0)
        collector.no_more()
    assert told == []

    collector.no_more()
    assert told == [1]


def test_urgent_results_are_sent_before_others_and_have_room_of_their_own() -> None:
    collector, producer = RecordCollector(2), Producer()
    collector.add(records("1", "2"), epoch=0)
    assert not collector.wait_for_room(0)

    assert collector.wait_for_room(0, urgent=True)
    collector.add(records("3"), epoch=0, urgent=True)
    collector.drain(producer.send, 10)

    assert producer.sent == ["3", "1", "2"]
    assert collector.drained
    assert len(collector) == 0


def test_urgent_results_of_the_next_epoch_wait_for_the_commit() -> None:
    collector, producer = RecordCollector(10), Producer()
    collector.add(records("1"), epoch=1, urgent=True)
    assert collector.drain(producer.send, 10) == 0

    collector.roll()
    collector.drain(producer.send, 10)

    assert producer.sent == ["1"]
