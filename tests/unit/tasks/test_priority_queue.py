"""The heap's order among equals is that of ``java.util.PriorityQueue``, which Kafka Streams uses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

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


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text("utf-8")))
def test_gives_items_in_the_order_java_gives_them(case: dict[str, list[int]]) -> None:
    assert ids_polled(case["operations"]) == case["polled"]


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
