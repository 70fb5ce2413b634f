"""The workloads: what goes in, made from a seed, and what must come out, worked out without any system under test.

Called by ``run.py`` on its only thread. A message stream is the same in every run and every process, so every system
reads the same bytes. Every result can be compared with one computed here in plain Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, count, islice
from typing import NamedTuple, Protocol
from zlib import crc32

import orjson


class Message(NamedTuple):
    """A record. Without ``timestamp`` it has the time at which it is written; ``right``: it belongs into the second
    topic of a workload that reads two."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    right: bool = False


WORDS_PER_LINE = 8
KEYS = 500_000
VOCABULARY = 50_000
_SEED = 7
_CHUNK = 10_000


class Outcome(NamedTuple):
    """A result in short: how many items it has, and the sum of their checksums, whatever their order."""

    items: int
    checksum: int


class Reckoning(Protocol):
    """Adds up records to an outcome; fed with input it expects, fed with output it finds."""

    def add(self, message: Message) -> None: ...
    def outcome(self) -> Outcome: ...


class EachValue:
    """Every value counts, once each; ``canonical`` gives the bytes to compare, ``None`` for a record to be dropped."""

    def __init__(self, canonical: Callable[[bytes], bytes | None]) -> None:
        self._canonical = canonical
        self._items = 0
        self._checksum = 0

    def add(self, message: Message) -> None:
        if message.value is None:
            raise ValueError(f"a record without value was written, key {message.key!r}")
        canonical = self._canonical(message.value)
        if canonical is not None:
            self._items += 1
            self._checksum += crc32(canonical)

    def outcome(self) -> Outcome:
        return Outcome(self._items, self._checksum)


class Occurrences:
    """Counts how often each key occurs; ``keys`` takes the keys out of an input record."""

    def __init__(self, keys: Callable[[Message], Iterable[bytes]]) -> None:
        self._keys = keys
        self._counts: dict[bytes, int] = {}

    def add(self, message: Message) -> None:
        counts = self._counts
        for found in self._keys(message):
            counts[found] = counts.get(found, 0) + 1

    def outcome(self) -> Outcome:
        return counts_outcome(self._counts)


class LastCounts:
    """The last count written for each key, as a system's output topic holds it (big-endian, 4 or 8 bytes); a record
    without value deletes it."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}

    def add(self, message: Message) -> None:
        if message.key is None:
            raise ValueError("a count was written without a key")
        if message.value is None:
            self._counts.pop(message.key, None)
        else:
            self._counts[message.key] = int.from_bytes(message.value, "big", signed=True)

    def outcome(self) -> Outcome:
        return counts_outcome(self._counts)


def counts_outcome(counts: dict[bytes, int]) -> Outcome:
    """Returns the outcome of counts per key."""
    return Outcome(len(counts), sum(crc32(b"%b=%d" % entry) for entry in counts.items()))


@dataclass(frozen=True)
class Workload:
    """One kind of work. ``records`` and ``sample`` count input messages at scale 1.

    ``sample`` is the size for systems too slow for the whole; ``units_per_message`` says how many records of the kind
    that the rates count one message holds. ``changelog``: what goes in is a changelog, and a store is restored from it.
    ``tail``: so many of the messages come in after snapshots were taken. ``updates_per_record``: so many updates come
    of one record. ``two_topics``: the messages go to two. ``table``: what the second topic of a join with a table has,
    all of it earlier than any message; the rates do not count it.
    """

    name: str
    title: str
    records: int
    sample: int
    messages: Callable[[], Iterator[Message]]
    expected: Callable[[], Reckoning]
    found: Callable[[], Reckoning]
    units_per_message: int = 1
    changelog: bool = False
    tail: int = 0
    updates_per_record: int = 1
    two_topics: bool = False
    table: Callable[[], Iterator[Message]] | None = None
    table_records: int = 0


def _w1_strings() -> Iterator[Message]:
    filler = "x" * 60
    for number in count():
        text = f"user{number % 1000:04d},click{number % 10},{number:010d},{filler}"
        yield Message(None, text.ljust(100, "y").encode())


def _w1_strings_expected(value: bytes) -> bytes | None:
    return None if value.startswith(b"click9", 9) else value.upper()


def _w1_json() -> Iterator[Message]:
    for n in count():
        yield Message(
            None,
            b'{"user":"u%06d","type":"click%d","ts":%d,"amount":%d.5,"page":"/home/%05d","n":%d}'
            % (n % 99_991, n % 10, 1_700_000_000_000 + n, n % 1000, n % 77_777, n),
        )


def _w1_json_expected(value: bytes) -> bytes | None:
    event = orjson.loads(value)
    if event["type"] == "click9":
        return None
    event["amount"] *= 2
    return orjson.dumps(event, option=orjson.OPT_SORT_KEYS)


def _w1_json_found(value: bytes) -> bytes:
    return orjson.dumps(orjson.loads(value), option=orjson.OPT_SORT_KEYS)


def _w2_lines() -> Iterator[Message]:
    """Lines of words drawn by Zipf's law with exponent 1.1: few words are very frequent, most are rare."""
    rng = random.Random(_SEED)
    words = _vocabulary(rng)
    weights = list(accumulate(1 / rank**1.1 for rank in range(1, VOCABULARY + 1)))
    while True:
        drawn = rng.choices(words, cum_weights=weights, k=_CHUNK * WORDS_PER_LINE)
        for start in range(0, len(drawn), WORDS_PER_LINE):
            yield Message(None, " ".join(drawn[start : start + WORDS_PER_LINE]).encode())


def _vocabulary(rng: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9)))] = None
    return list(words)


def _w3_keyed() -> Iterator[Message]:
    rng = random.Random(_SEED)
    keys = [b"%016x" % rng.getrandbits(64) for _ in range(KEYS)]
    while True:
        for number in rng.choices(range(KEYS), k=_CHUNK):
            yield Message(keys[number], b"v%019d" % number)


def _w4_changelog() -> Iterator[Message]:
    """Every key once, in an order that looks random to a store sorted by key."""
    for number in count():
        yield Message(b"%016x" % (number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF), b"%020d" % number * 5)


def _restore_changelog() -> Iterator[Message]:
    """The same keys. Half of each value is random, so that compression helps as it may with real values."""
    rng = random.Random(_SEED)
    for number, message in enumerate(_w4_changelog()):
        yield Message(message.key, b"%050d" % number + rng.randbytes(50))


def _own_key(message: Message) -> Iterable[bytes]:
    return () if message.key is None else (message.key,)


def same(value: bytes) -> bytes:
    """The value counts as it is."""
    return value


def _words(message: Message) -> Iterable[bytes]:
    return () if message.value is None else message.value.split(b" ")


W1_STRING = Workload(
    name="w1-string",
    title="filter and map of strings",
    records=20_000_000,
    sample=1_000_000,
    messages=_w1_strings,
    expected=lambda: EachValue(_w1_strings_expected),
    found=lambda: EachValue(same),
)
W1_JSON = Workload(
    name="w1-json",
    title="filter and map of JSON",
    records=14_000_000,
    sample=1_500_000,
    messages=_w1_json,
    expected=lambda: EachValue(_w1_json_expected),
    found=lambda: EachValue(_w1_json_found),
)
W2 = Workload(
    name="w2",
    title="word count through a repartition topic",
    records=2_400_000,
    sample=100_000,
    messages=_w2_lines,
    expected=lambda: Occurrences(_words),
    found=LastCounts,
    units_per_message=WORDS_PER_LINE,
)
W3 = Workload(
    name="w3",
    title="count per key",
    records=9_000_000,
    sample=1_000_000,
    messages=_w3_keyed,
    expected=lambda: Occurrences(_own_key),
    found=LastCounts,
)
W4 = Workload(
    name="w4",
    title="restore of a store from its changelog",
    records=13_000_000,
    sample=500_000,
    messages=_w4_changelog,
    expected=lambda: EachValue(same),
    found=lambda: EachValue(same),
    changelog=True,
)
#: By their size.
RESTORES = {
    size: Workload(
        name=f"restore-{size}",
        title=f"from an empty disk to running, {size} keys",
        records=records,
        sample=0,
        messages=_restore_changelog,
        expected=lambda: EachValue(same),
        found=lambda: EachValue(same),
        changelog=True,
        tail=50_000,
    )
    for size, records in (("1m", 1_000_000), ("5m", 5_000_000), ("10m", 10_000_000))
}
STEADY = replace(W3, name="steady", title="count per key, with and without snapshots")


def first_messages(workload: Workload, limit: int) -> Iterator[Message]:
    """The first ``limit`` messages, the same whenever it is asked."""
    return islice(workload.messages(), limit)


def half_of(messages: Iterator[Message], half: int) -> Iterator[Message]:
    """About half of the messages, all of one key in the same half: ``half`` is 0 or 1."""
    for message in messages:
        if crc32(message.key or message.value or b"") % 2 == half:
            yield message
