"""The heap's order among equals is that of ``java.util.PriorityQueue``, which Kafka Streams uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from streamsapp.tasks.priority_queue import PriorityQueue

GOLDEN = Path(__file__).parent / "golden" / "java_priority_queue.json"


class Item(NamedTuple):
    rank: int
    id: int


def by_rank() -> PriorityQueue[Item]:
    return PriorityQueue(lambda item: item.rank)


def ids_polled(operations: list[int]) -> list[int]:
    """Runs a golden sequence: a rank is offered with the next id, -1 polls."""
    queue = by_rank()
    ids = iter(range(len(operations)))
    return [queue.poll().id for rank in operations if rank < 0 or queue.offer(Item(rank, next(ids)))]  # type: ignore[func-returns-value]


def polled(queue: PriorityQueue[Item]) -> list[Item]:
    return [queue.poll() for _ in range(len(queue))]


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text("utf-8")))
def test_gives_items_in_the_order_java_gives_them(case: dict[str, list[int]]) -> None:
    assert ids_polled(case["operations"]) == case["polled"]


@given(ranks=st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_an_exchange_is_an_offer_and_a_poll(ranks: list[int]) -> None:
    exchanged, offered = by_rank(), by_rank()
    for number, rank in enumerate(ranks[1:]):
        exchanged.offer(Item(rank, number))
        offered.offer(Item(rank, number))
    last = Item(ranks[0], len(ranks))

    taken = [exchanged.exchange(last)]
    offered.offer(last)

    assert taken + polled(exchanged) == polled(offered)


def test_peeks_without_taking() -> None:
    queue = by_rank()
    queue.offer(Item(2, 0))
    queue.offer(Item(1, 1))

    assert queue.peek() == Item(1, 1)
    assert len(queue) == 2


def test_is_empty_after_clearing() -> None:
    queue = by_rank()
    queue.offer(Item(1, 0))

    queue.clear()

    assert len(queue) == 0
    assert queue.peek() is None


def test_polling_an_empty_queue_raises_index_error() -> None:
    with pytest.raises(IndexError):
        by_rank().poll()
