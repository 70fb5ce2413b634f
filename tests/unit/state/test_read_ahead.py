"""Records that wait are read before their turn, each key once, by a bounded number of readers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamsapp.errors import StateOutOfReachError
from streamsapp.record import RawRecord
from streamsapp.state.engine.missing_blocks import Block
from streamsapp.state.engine.read_ahead import READERS, ReadAhead

TIMEOUT = 60.0


class Works:
    """Work that the test does when it likes."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def bring(self, blocks: Sequence[Block]) -> bool:
        return False

    def soon(self, work: Callable[[], None]) -> None:
        self.waiting.append(work)

    def when_whole(self, act: Callable[[], None]) -> None: ...

    def close(self) -> None: ...

    def do(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


def records(keys: Sequence[bytes | None], begin: int = 0) -> list[RawRecord]:
    return [RawRecord("in", 0, begin + at, key, b"v", 0) for at, key in enumerate(keys)]


def nothing_processed() -> None:
    return None


@pytest.fixture
def works() -> Works:
    return Works()


def test_every_key_is_read_once_in_the_order_of_the_records(works: Works) -> None:
    read: list[bytes] = []
    ahead = ReadAhead(read.append, works)

    ahead.add(records([b"a", b"b", None, b"a", b""]), nothing_processed)
    ahead.add(records([b"c", b"b"], begin=5), nothing_processed)
    works.do()

    assert read == [b"a", b"b", b"c"]


def test_records_that_are_processed_already_are_not_read(works: Works) -> None:
    read: list[bytes] = []
    ahead = ReadAhead(read.append, works)

    ahead.add(records([b"%d" % number for number in range(10)], begin=100), lambda: 107)
    works.do()

    assert read == [b"7", b"8", b"9"]


def test_many_keys_are_read_by_so_many_readers_and_no_more(works: Works) -> None:
    reading, most, together = 0, 0, threading.Barrier(READERS)
    lock = threading.Lock()

    def read(key: bytes) -> None:
        nonlocal reading, most
        with lock:
            reading += 1
            most = max(most, reading)
        if int(key) < READERS:
            together.wait(TIMEOUT)  # all of them read at the same time
        with lock:
            reading -= 1

    ahead = ReadAhead(read, works)
    for begin in range(0, 1000, 100):
        ahead.add(records([b"%d" % (begin + each) for each in range(100)], begin), nothing_processed)
    assert len(works.waiting) == READERS
    with ThreadPoolExecutor(2 * READERS) as threads:
        list(threads.map(lambda _: works.do(), range(2 * READERS)))

    assert most == READERS


def test_a_read_that_fails_ends_what_waited_and_later_records_are_read(works: Works) -> None:
    read: list[bytes] = []

    def fail(key: bytes) -> None:
        read.append(key)
        if key == b"a":
            raise StateOutOfReachError("away")

    ahead = ReadAhead(fail, works)
    ahead.add(records([b"a", b"b"]), nothing_processed)
    works.do()
    ahead.add(records([b"c"], begin=2), nothing_processed)
    works.do()

    assert read == [b"a", b"c"]


def test_records_of_a_task_that_ended_are_forgotten(works: Works) -> None:
    read: list[bytes] = []
    ahead = ReadAhead(read.append, works)
    ahead.add(records([b"a", b"b"]), nothing_processed)

    ahead.clear()
    works.do()

    assert read == []
