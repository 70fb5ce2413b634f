"""The workloads in which time matters: windows, sessions and joins, W5 to W9.

Read by ``cases.py``. Records carry their own timestamps. One in ten of W5 and W8 comes up to two seconds late, which
the grace of ten seconds allows for. So nothing is dropped, and every result is known.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, repeat
from zlib import crc32

from benchmarks.workloads import EachValue, LastCounts, Message, Outcome, Workload, counts_outcome, same

MINUTE = 60_000
HOP = 10_000
JOIN_WINDOW = 10_000
SESSION_GAP = 5_000
#: The length of a customer's key, with which an order of W9 begins.
CUSTOMER_BYTES = 12

_BEGIN = 1_700_000_040_000  # a full minute
_ROWS_BEGIN = _BEGIN - 3_600_000
_KEYS = 100_000
_TABLE_KEYS = 500_000
_SEED = 7
_CHUNK = 10_000
_LATENESS = 2_000


class JoinedInTime:
    """Pairs of records of two streams with one key and at most the window apart; input comes in the order of time."""

    def __init__(self) -> None:
        self._pairs = EachValue(same)
        self._sides: dict[bool, dict[bytes, list[tuple[int, bytes]]]] = {
            False: defaultdict(list),
            True: defaultdict(list),
        }

    def add(self, message: Message) -> None:
        key, value, timestamp, right = message
        assert key is not None
        assert value is not None
        assert timestamp is not None
        others = self._sides[not right][key]
        for _, other in others[bisect_left(others, (timestamp - JOIN_WINDOW, b"")) :]:
            self._pairs.add(Message(key, other + value if right else value + other))
        self._sides[right][key].append((timestamp, value))

    def outcome(self) -> Outcome:
        return self._pairs.outcome()


class JoinedWithTable:
    """Records of a stream with the row of their key; the whole table comes before the stream."""

    def __init__(self) -> None:
        self._rows: dict[bytes | None, bytes | None] = {}
        self._joined = EachValue(same)

    def add(self, message: Message) -> None:
        if message.right:
            self._rows[message.key] = message.value
        elif (row := self._rows.get(message.key)) is not None and message.value is not None:
            self._joined.add(Message(message.key, message.value + row))

    def outcome(self) -> Outcome:
        return self._joined.outcome()


class LastValues:
    """The last value written for each key."""

    def __init__(self) -> None:
        self._values: dict[bytes | None, bytes] = {}

    def add(self, message: Message) -> None:
        if message.value is None:
            self._values.pop(message.key, None)
        else:
            self._values[message.key] = message.value

    def outcome(self) -> Outcome:
        return Outcome(len(self._values), sum(crc32(b"%b=%b" % (key or b"", v)) for key, v in self._values.items()))


class OrdersWithCustomers:
    """Each order with its customer, or alone where there is none."""

    def __init__(self) -> None:
        self._customers: dict[bytes | None, bytes] = {}
        self._orders = LastValues()

    def add(self, message: Message) -> None:
        assert message.value is not None
        if message.right:
            self._customers[message.key] = message.value
        else:
            customer = self._customers.get(message.value[:CUSTOMER_BYTES], b"")
            self._orders.add(message._replace(value=message.value + customer))

    def outcome(self) -> Outcome:
        return self._orders.outcome()


class Sessions:
    """Counts the records of each session, under its key as Kafka Streams writes it: key, end, start."""

    def __init__(self) -> None:
        self._times: dict[bytes, list[int]] = defaultdict(list)

    def add(self, message: Message) -> None:
        assert message.key is not None
        assert message.timestamp is not None
        self._times[message.key].append(message.timestamp)

    def outcome(self) -> Outcome:
        return counts_outcome(dict(self._counted()))

    def _counted(self) -> Iterator[tuple[bytes, int]]:
        for key, times in self._times.items():
            times.sort()
            begin = 0
            for following in range(1, len(times) + 1):
                if following == len(times) or times[following] - times[following - 1] > SESSION_GAP:
                    bounds = _long(times[following - 1]) + _long(times[begin])
                    yield key + bounds, following - begin
                    begin = following


def _long(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _in_windows(advance: int) -> Callable[[Message], Iterable[bytes]]:
    """The windows of a minute that a record belongs to, under their keys: key, start."""

    def windows(message: Message) -> Iterable[bytes]:
        key, _, timestamp, _ = message
        assert key is not None
        assert timestamp is not None
        first = (timestamp - MINUTE + advance) // advance * advance
        return (key + _long(start) for start in range(first, timestamp + 1, advance))

    return windows


class WindowCounts:
    """Counts per key and window."""

    def __init__(self, advance: int) -> None:
        self._windows = _in_windows(advance)
        self._counts: dict[bytes, int] = defaultdict(int)

    def add(self, message: Message) -> None:
        for window in self._windows(message):
            self._counts[window] += 1

    def outcome(self) -> Outcome:
        return counts_outcome(self._counts)


def _events(keys: int, per_second: int) -> Iterator[Message]:
    """Records of evenly drawn keys, so many for each second of their time, one in ten of them late."""
    for number, key in enumerate(_drawn(keys)):
        late = number * 7_919 % _LATENESS if number % 10 == 3 else 0
        yield Message(key, b"v%019d" % number, _BEGIN + number * 1000 // per_second - late)


def _drawn(keys: int) -> Iterator[bytes]:
    rng = random.Random(_SEED)
    names = [b"%016x" % rng.getrandbits(64) for _ in range(keys)]
    return chain.from_iterable(rng.choices(names, k=_CHUNK) for _ in repeat(None))


def _both_sides() -> Iterator[Message]:
    """Records of two streams in turn, 5,000 a second of each, which makes about one pair of each record."""
    for number, key in enumerate(_drawn(_KEYS)):
        right = number % 2 == 1
        yield Message(key, b"%b%019d" % (b"r" if right else b"l", number), _BEGIN + number // 10, right)


def _rows() -> Iterator[Message]:
    """Rows of a table under the keys that W7's stream is drawn from."""
    rng = random.Random(_SEED)
    for number in range(_TABLE_KEYS):
        yield Message(b"%016x" % rng.getrandbits(64), b"row%037d" % number, _ROWS_BEGIN + number // 1000, right=True)


def _customers() -> Iterator[Message]:
    for number in range(_KEYS):
        yield Message(_customer(number), b"name%036d" % number, _ROWS_BEGIN + number // 1000, right=True)


def _orders() -> Iterator[Message]:
    """Orders, each new, of evenly drawn customers."""
    rng = random.Random(_SEED)
    for number in count():
        value = b"%bitem%024d" % (_customer(rng.randrange(_KEYS)), number)
        yield Message(b"%012d" % number, value, _BEGIN + number // 10)


def _customer(number: int) -> bytes:
    return b"c%011d" % number


def _windowed(name: str, keys: int, advance: int, records: int, sample: int) -> Workload:
    hopping = advance < MINUTE
    return Workload(
        name=f"w5-{name}",
        title=f"count per key and minute, {'every 10 s' if hopping else 'tumbling'}, {keys:,} keys",
        records=records,
        sample=sample,
        messages=lambda: _events(keys, per_second=10_000),
        expected=lambda: WindowCounts(advance),
        found=LastCounts,
        updates_per_record=MINUTE // advance,
    )


W5 = {
    workload.name.removeprefix("w5-"): workload
    for workload in (
        _windowed("tumbling-1k", 1_000, MINUTE, 5_000_000, 400_000),
        _windowed("tumbling-500k", 500_000, MINUTE, 4_000_000, 400_000),
        _windowed("hopping-1k", 1_000, HOP, 1_500_000, 100_000),
        _windowed("hopping-500k", 500_000, HOP, 800_000, 100_000),
    )
}
W6 = Workload(
    name="w6",
    title="join of two streams within 10 s",
    records=3_000_000,
    sample=200_000,
    messages=_both_sides,
    expected=JoinedInTime,
    found=lambda: EachValue(same),
    two_topics=True,
)
W7 = Workload(
    name="w7",
    title="join of a stream with a table",
    records=6_000_000,
    sample=400_000,
    messages=lambda: _events(_TABLE_KEYS, per_second=10_000),
    expected=JoinedWithTable,
    found=lambda: EachValue(same),
    two_topics=True,
    table=_rows,
    table_records=_TABLE_KEYS,
)
W8 = Workload(
    name="w8",
    title="count per session, 5 s of inactivity",
    records=3_000_000,
    sample=0,
    messages=lambda: _events(_KEYS, per_second=20_000),
    expected=Sessions,
    found=LastCounts,
)
W9 = Workload(
    name="w9",
    title="foreign-key join of orders with their customers",
    records=1_500_000,
    sample=0,
    messages=_orders,
    expected=OrdersWithCustomers,
    found=LastValues,
    two_topics=True,
    table=_customers,
    table_records=_KEYS,
)
