"""The right answers to Nexmark's queries, worked out in plain Python from the input alone.

Fed by ``inputs.py`` on the only thread of ``run.py``, and by the tests: with every record of the input, in the order of
its time. JSON counts by what it says, not by its bytes.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from zlib import crc32

import orjson
from benchmarks.workloads import EachValue, Message, Outcome, Reckoning, counts_outcome

PERIOD, ADVANCE, GAP = 10_000, 2_000, 10_000
CATEGORY, STATES, EVERY, TOP = 10, ("OR", "ID", "CA"), 123, 10
TO_EUROS = 0.908
#: A day, which no input lasts. Partitions are read at different speeds: behind a repartition topic, a record may come
#: after another of a much later time.
GRACE = 86_400_000

Row: TypeAlias = dict[str, Any]


def canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def long(number: int) -> bytes:
    return number.to_bytes(8, "big")


def rows_outcome(rows: dict[bytes, bytes]) -> Outcome:
    return Outcome(len(rows), sum(crc32(b"%b=%b" % row) for row in rows.items()))


class LastOfEach:
    """The last value written for each key, as an output topic has it."""

    def __init__(self, read: Callable[[bytes], bytes]) -> None:
        self._read = read
        self._rows: dict[bytes, bytes] = {}

    def add(self, message: Message) -> None:
        assert message.key is not None
        if message.value is None:
            self._rows.pop(message.key, None)
        else:
            self._rows[message.key] = self._read(message.value)

    def outcome(self) -> Outcome:
        return rows_outcome(self._rows)


def last_json() -> LastOfEach:
    return LastOfEach(lambda value: canonical(orjson.loads(value)))


def each_json() -> EachValue:
    return EachValue(lambda value: canonical(orjson.loads(value)))


def last_bytes() -> LastOfEach:
    return LastOfEach(lambda value: value)


class CountsOfWindows:
    """The last count of each key and window, added up for each key: windows of the time of processing have no other
    answer that is known before."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}

    def add(self, message: Message) -> None:
        assert message.key is not None
        assert message.value is not None
        self._counts[message.key] = int.from_bytes(message.value, "big")

    def outcome(self) -> Outcome:
        sums: Counter[bytes] = Counter()
        for window, count in self._counts.items():
            sums[window[:8]] += count
        return counts_outcome(sums)


class Bids(ABC):
    """An answer to a query over bids, or bids and auctions: ``bid`` adds one, ``rows`` returns the results."""

    def __init__(self) -> None:
        self.auctions: dict[int, Row] = {}

    def add(self, message: Message) -> None:
        assert message.value is not None
        row = orjson.loads(message.value)
        if message.right:
            self.auctions[row["id"]] = row
        else:
            self.bid(row)

    @abstractmethod
    def bid(self, bid: Row) -> None: ...

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Returns none for a query whose ``outcome`` is its own."""
        return iter(())

    def outcome(self) -> Outcome:
        return rows_outcome(dict(self.rows()))


def in_euros(value: bytes) -> bytes:
    bid = orjson.loads(value)
    kept = {name: bid[name] for name in ("auction", "bidder", "dateTime", "extra")}
    return canonical({**kept, "price": TO_EUROS * bid["price"]})


def selected(value: bytes) -> bytes | None:
    bid = orjson.loads(value)
    return canonical({name: bid[name] for name in ("auction", "price")}) if bid["auction"] % EVERY == 0 else None


class OfSellers:
    """Auctions and the persons who sell there; these are the second topic."""

    def __init__(self) -> None:
        self._auctions: list[Row] = []
        self._persons: dict[int, Row] = {}

    def add(self, message: Message) -> None:
        assert message.value is not None
        row = orjson.loads(message.value)
        if message.right:
            self._persons[row["id"]] = row
        else:
            self._auctions.append(row)

    def sold(self) -> Iterator[tuple[Row, Row]]:
        for auction in self._auctions:
            if person := self._persons.get(auction["seller"]):
                yield auction, person


class LocalItems(OfSellers):
    """Q3."""

    def outcome(self) -> Outcome:
        return rows_outcome(
            {
                long(auction["id"]): canonical(
                    {**{n: person[n] for n in ("name", "city", "state")}, "id": auction["id"]}
                )
                for auction, person in self.sold()
                if auction["category"] == CATEGORY and person["state"] in STATES
            }
        )


class NewUsers(OfSellers):
    """Q8: a value for each auction that a person opened in the window in which they came."""

    def outcome(self) -> Outcome:
        values = [
            canonical({"id": person["id"], "name": person["name"], "starttime": person["dateTime"] // PERIOD * PERIOD})
            for auction, person in self.sold()
            if auction["dateTime"] // PERIOD == person["dateTime"] // PERIOD
        ]
        return Outcome(len(values), sum(map(crc32, values)))


class Winning(Bids):
    """The highest price of each auction while it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.prices: dict[int, int] = {}

    def bid(self, bid: Row) -> None:
        auction = self.auctions.get(bid["auction"])
        if auction is not None and auction["dateTime"] <= bid["dateTime"] <= auction["expires"]:
            self.prices[auction["id"]] = max(bid["price"], self.prices.get(auction["id"], 0))


class AveragePrices(Winning):
    """Q4."""

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        of_category: defaultdict[int, list[int]] = defaultdict(list)
        for auction, price in self.prices.items():
            of_category[self.auctions[auction]["category"]].append(price)
        for category, prices in of_category.items():
            yield long(category), struct.pack(">d", sum(prices) / len(prices))


class AveragesOfSellers(Winning):
    """Q6: over the auctions of a seller that close last."""

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        of_seller: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for number, price in self.prices.items():
            auction = self.auctions[number]
            of_seller[auction["seller"]].append((auction["expires"], number, price))
        for seller, sales in of_seller.items():
            last = [price for _, _, price in sorted(sales)[-TOP:]]
            yield long(seller), struct.pack(">d", sum(last) / len(last))


class HotItems(Bids):
    """Q5."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: defaultdict[int, Counter[int]] = defaultdict(Counter)

    def bid(self, bid: Row) -> None:
        last = bid["dateTime"] // ADVANCE * ADVANCE
        for start in range(last - PERIOD + ADVANCE, last + 1, ADVANCE):
            self._counts[start][bid["auction"]] += 1

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        for start, counts in self._counts.items():
            most = max(counts.values())
            auctions = sorted(auction for auction, num in counts.items() if num == most)
            yield long(start), canonical({"num": most, "auctions": auctions})


class HighestBids(Bids):
    """Q7."""

    def __init__(self) -> None:
        super().__init__()
        self._best: dict[int, Row] = {}

    def bid(self, bid: Row) -> None:
        start = bid["dateTime"] // PERIOD * PERIOD
        best = self._best.get(start)
        if best is None or bid["price"] > best["price"]:
            self._best[start] = bid

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        return ((long(start), canonical(bid)) for start, bid in self._best.items())


class Sessions(Bids):
    """Q11: counts under the keys of sessions as Kafka Streams writes them: bidder, end, start."""

    def __init__(self) -> None:
        super().__init__()
        self._times: defaultdict[int, list[int]] = defaultdict(list)

    def bid(self, bid: Row) -> None:
        self._times[bid["bidder"]].append(bid["dateTime"])

    def outcome(self) -> Outcome:
        return counts_outcome(dict(self._counted()))

    def _counted(self) -> Iterator[tuple[bytes, int]]:
        for bidder, times in self._times.items():
            begin = 0
            for following in range(1, len(times) + 1):
                if following == len(times) or times[following] - times[following - 1] > GAP:
                    yield long(bidder) + long(times[following - 1]) + long(times[begin]), following - begin
                    begin = following


class OfBidders(Bids):
    """Q12: how many bids each made, in all windows together."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[bytes] = Counter()

    def bid(self, bid: Row) -> None:
        self._counts[long(bid["bidder"])] += 1

    def outcome(self) -> Outcome:
        return counts_outcome(self._counts)


class LastBids(Bids):
    """Q18."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[bytes, bytes] = {}

    def bid(self, bid: Row) -> None:
        self._last[b"%d-%d" % (bid["bidder"], bid["auction"])] = canonical(bid)

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._last.items())


class TopBids(Bids):
    """Q19."""

    def __init__(self) -> None:
        super().__init__()
        self._bids: defaultdict[int, list[Row]] = defaultdict(list)

    def bid(self, bid: Row) -> None:
        bids = self._bids[bid["auction"]]
        bids.append(bid)
        bids.sort(key=lambda each: (-each["price"], each["dateTime"]))
        del bids[TOP:]

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        return ((long(auction), canonical({"bids": bids})) for auction, bids in self._bids.items())


class ExpandedBids(Bids):
    """Q20: every bid with its auction, if this was there already and is of the category."""

    _OF_AUCTION = ("itemName", "description", "initialBid", "reserve", "expires", "seller", "category")

    def __init__(self) -> None:
        super().__init__()
        self._values = EachValue(lambda value: value)

    def bid(self, bid: Row) -> None:
        auction = self.auctions.get(bid["auction"])
        if auction is not None and auction["category"] == CATEGORY:
            own = {name: auction[name] for name in self._OF_AUCTION}
            of_auction = {**own, "opened": auction["dateTime"], "auctionExtra": auction["extra"]}
            self._values.add(Message(None, canonical({**bid, **of_auction})))

    def outcome(self) -> Outcome:
        return self._values.outcome()


def each(answer: Callable[[bytes], bytes | None]) -> Callable[[], Reckoning]:
    return lambda: EachValue(answer)
