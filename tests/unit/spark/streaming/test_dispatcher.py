"""The lanes of a batch go to the processes that ask for them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from streamsapp.runtime.micro_batches.model import LaneOrder
from streamsapp_spark.streaming.dispatcher import Dispatcher, Puller


def orders(*numbers: int, gives_up: bool = False) -> list[LaneOrder]:
    return [LaneOrder(number, (), gives_up) for number in numbers]


def run(dispatcher: Dispatcher, puller: Puller) -> list[int]:
    """Everything that a puller gets, done."""
    done = []
    while (order := dispatcher.take(puller)) is not None:
        assert dispatcher.reported(puller, order.number)
        done.append(order.number)
    return done


def test_lanes_are_divided_evenly_and_stay_where_they_are() -> None:
    dispatcher = Dispatcher()
    for places in (("a", "b"), ("b", "a")):
        dispatcher.begin(orders(0, 1, 2, 3), 2)
        first, second = (dispatcher.join(place, number, 0) for number, place in enumerate(places))
        done = {first.process: run(dispatcher, first), second.process: run(dispatcher, second)}
        assert done == {"a": [0, 2], "b": [1, 3]}
        assert dispatcher.done
    assert dispatcher.moves == 0


def test_a_batch_waits_for_the_process_that_has_a_lane() -> None:
    dispatcher = Dispatcher(rendezvous=60.0)
    dispatcher.begin(orders(0, 1), 2)
    pullers = [dispatcher.join(place, number, 0) for number, place in enumerate("ab")]
    assert [run(dispatcher, puller) for puller in pullers] == [[0], [1]]
    dispatcher.begin(orders(1), 2)
    early = dispatcher.join("a", 0, 0)
    got: list[list[int]] = []
    waiting = threading.Thread(target=lambda: got.append(run(dispatcher, early)))
    waiting.start()
    assert run(dispatcher, dispatcher.join("b", 1, 0)) == [1]
    waiting.join()
    assert got == [[]]


def test_lanes_of_a_process_that_does_not_come_go_to_those_that_do() -> None:
    dispatcher = Dispatcher(rendezvous=0.01)
    dispatcher.begin(orders(0, 1), 2)
    for number, place in enumerate("ab"):
        dispatcher.join(place, number, 0)
    run(dispatcher, dispatcher.join("a", 0, 0))
    run(dispatcher, dispatcher.join("b", 1, 0))
    dispatcher.begin(orders(0, 1), 2)
    assert run(dispatcher, dispatcher.join("a", 0, 0)) == [0, 1]
    assert (dispatcher.moves, dispatcher.lanes) == (1, {0: "a", 1: "a"})


def test_a_lane_of_a_lost_puller_is_done_by_the_next_attempt() -> None:
    dispatcher = Dispatcher()
    dispatcher.begin(orders(0), 1)
    lost = dispatcher.join("a", 0, 0)
    assert dispatcher.take(lost) is not None
    dispatcher.lose(lost)
    assert not dispatcher.done
    assert run(dispatcher, dispatcher.join("b", 0, 1)) == [0]
    assert dispatcher.done


def test_an_attempt_that_was_given_up_for_lost_gets_nothing_more_and_is_not_heard() -> None:
    dispatcher = Dispatcher()
    dispatcher.begin(orders(0, 1), 1)
    hanging = dispatcher.join("a", 0, 0)
    order = dispatcher.take(hanging)
    assert order is not None
    again = dispatcher.join("b", 0, 1)
    assert run(dispatcher, again) == [1, 0]
    assert not dispatcher.reported(hanging, order.number)
    assert dispatcher.take(hanging) is None


def test_a_pod_is_told_of_when_a_batch_has_ended_in_which_it_took_part() -> None:
    dispatcher = Dispatcher()
    dispatcher.begin(orders(0), 1)
    run(dispatcher, dispatcher.join("a", 0, 0, "uid-1"))
    assert dispatcher.pods == frozenset(), "Spark may run more of it"
    dispatcher.begin(orders(0), 1)
    assert dispatcher.pods == {"uid-1"}
    again = dispatcher.join("a", 0, 0, "uid-2")
    assert dispatcher.take(again) is not None
    dispatcher.begin(orders(0), 1)
    assert dispatcher.pods == {"uid-1"}, "that batch failed"
    run(dispatcher, dispatcher.join("a", 0, 0, "uid-2"))
    dispatcher.begin([], 1)
    assert dispatcher.pods == {"uid-2"}


def test_a_lane_that_is_given_up_belongs_to_nobody() -> None:
    dispatcher = Dispatcher()
    dispatcher.begin(orders(0, gives_up=True), 1)
    assert run(dispatcher, dispatcher.join("a", 0, 0)) == [0]
    assert dispatcher.lanes == {}


def test_a_puller_that_reports_after_its_batch_ends_nothing_of_the_next() -> None:
    dispatcher = Dispatcher(rendezvous=0.01)
    dispatcher.begin(orders(0), 1)
    late = dispatcher.join("a", 0, 0)
    assert dispatcher.take(late) is not None
    dispatcher.begin(orders(0), 1)
    assert not dispatcher.reported(late, 0)
    dispatcher.lose(late)
    assert run(dispatcher, dispatcher.join("b", 0, 0)) == [0]
    assert dispatcher.done


def batch(dispatcher: Dispatcher, places: str, *numbers: int, leaving: Sequence[int] = ()) -> dict[str, list[int]]:
    """A batch of these lanes in these processes; returns the lanes that each of them ran."""
    given = [LaneOrder(each, (), gives_up=each in leaving) for each in sorted({*numbers, *leaving})]
    dispatcher.begin(given, len(places))
    pullers = [dispatcher.join(place, number, 0) for number, place in enumerate(places)]
    return {puller.process: run(dispatcher, puller) for puller in pullers}


def test_a_process_that_comes_later_gets_lanes_once_it_has_stayed_for_a_while() -> None:
    dispatcher = Dispatcher()
    assert batch(dispatcher, "a", 0, 1, 2) == {"a": [0, 1, 2]}
    for _ in range(3):
        assert dispatcher.uneven() == []
        batch(dispatcher, "abc", 0, 1, 2)
    batch(dispatcher, "abc")  # the batch before counts from here on
    assert dispatcher.uneven() == [2, 1]
    assert batch(dispatcher, "abc", 0, leaving=dispatcher.uneven()) == {"a": [0, 1, 2], "b": [], "c": []}
    assert batch(dispatcher, "abc", 0, 1, 2) == {"a": [0], "b": [1], "c": [2]}
    batch(dispatcher, "abc")
    assert (dispatcher.uneven(), dispatcher.moves) == ([], 2)


def test_a_process_that_comes_now_and_then_moves_nothing() -> None:
    dispatcher = Dispatcher(rendezvous=0.01)
    for places in ("a", "ab", "ab", "a", "ab", "ab", "a"):
        batch(dispatcher, places, 0, 1, 2, 3)
        assert dispatcher.uneven() == []


def test_lanes_of_a_process_that_stays_away_are_told_although_nothing_is_to_be_done_in_them() -> None:
    dispatcher = Dispatcher(rendezvous=0.01)
    assert batch(dispatcher, "ab", 0, 1) == {"a": [0], "b": [1]}
    for _ in range(3):
        assert dispatcher.deserted() == []
        batch(dispatcher, "a")
    assert dispatcher.deserted() == []
    batch(dispatcher, "a")
    assert (dispatcher.deserted(), dispatcher.lanes) == ([1], {0: "a"})
