"""Events of Nexmark's auctions from a seed: persons, auctions and bids, as JSON.

Read by ``queries.py`` and by the tests; plain functions. Proportions, hot keys and field names are those of Nexmark's
public generator. An event happens each millisecond, so no two have the same time, and results that ask for the first or
the last one are determined. Each kind draws from a source of its own: the persons are the same with and without bids.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import NamedTuple

PERSONS, AUCTIONS, BIDS = 1, 3, 46
EPOCH = PERSONS + AUCTIONS + BIDS
#: A full minute.
BEGIN = 1_700_000_040_000
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")

_SEED = 7
_CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent",
           "Cheyenne")  # fmt: skip
_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = 10_000
#: Of so many one after the other, the first is a hot auction or seller, and the second a hot bidder.
_HOT_EVERY = 100
_IN_FLIGHT = 100
_ACTIVE_PERSONS = 1000
#: Persons and auctions that are named before they are there.
_LEAD = 10
#: The mean size of an event in bytes, as the sum of its fields.
_PERSON_BYTES, _AUCTION_BYTES, _BID_BYTES = 200, 500, 100
_POOL = 1 << 16


class Event(NamedTuple):
    """``kind`` is ``person``, ``auction`` or ``bid``; ``key`` the id of the person or auction, or the auction that a
    bid is for; ``timestamp`` is in milliseconds."""

    kind: str
    key: int
    value: bytes
    timestamp: int


def events(kinds: Collection[str] = ("person", "auction", "bid"), seed: int = _SEED) -> Iterator[Event]:
    """Yields the events of the kinds asked for, without end, in the order of their times."""
    makers: dict[str, Callable[[int, int], Event]] = {
        kind: make(random.Random(f"{seed} {kind}"))
        for kind, make in (("person", _Persons), ("auction", _Auctions), ("bid", _Bids))
    }
    of_offset = ["person"] * PERSONS + ["auction"] * AUCTIONS + ["bid"] * BIDS
    wanted = [(offset, makers[kind]) for offset, kind in enumerate(of_offset) if kind in kinds]
    for first in count(0, EPOCH):
        for offset, make in wanted:
            yield make(first + offset, BEGIN + first + offset)


class _Text:
    """Slices of random letters, which are drawn once."""

    def __init__(self, rng: random.Random) -> None:
        self._letters = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=_POOL))
        self._random = rng.random

    def of(self, size: int) -> str:
        begin = int(self._random() * (_POOL - size))
        return self._letters[begin : begin + size]

    def filling(self, others: int, mean: int) -> str:
        """Fills an event up to its mean size, a fifth more or less."""
        missing = mean - others
        return "" if missing <= 0 else self.of(int(missing * (0.8 + 0.4 * self._random())))


class _Persons:
    def __init__(self, rng: random.Random) -> None:
        self._random, self._choice, self._text = rng.random, rng.choice, _Text(rng)

    def __call__(self, number: int, timestamp: int) -> Event:
        text, person = self._text, FIRST_ID + _last_person(number)
        name = f"{self._choice(_FIRST_NAMES)} {self._choice(_LAST_NAMES)}"
        email, city, state = f"{text.of(7)}@{text.of(5)}.com", self._choice(_CITIES), self._choice(STATES)
        card = " ".join(f"{int(self._random() * 10_000):04d}" for _ in range(4))
        extra = text.filling(8 + len(name) + len(email) + len(card) + len(city) + len(state), _PERSON_BYTES)
        value = (
            f'{{"id":{person},"name":"{name}","emailAddress":"{email}","creditCard":"{card}","city":"{city}",'
            f'"state":"{state}","dateTime":{timestamp},"extra":"{extra}"}}'
        )
        return Event("person", person, value.encode(), timestamp)


class _Auctions:
    def __init__(self, rng: random.Random) -> None:
        self._random, self._text = rng.random, _Text(rng)

    def __call__(self, number: int, timestamp: int) -> Event:
        draw, text, auction = self._random, self._text, FIRST_ID + _last_auction(number)
        seller = FIRST_ID + _person(number, draw, hot=3 / 4, place=0)
        item, description, initial = text.of(int(3 + draw() * 17)), text.of(int(3 + draw() * 97)), _price(draw)
        reserve = initial + _price(draw)
        # Twice the time until as many auctions have followed as are in flight, evenly drawn.
        expires = timestamp + 1 + int(draw() * 2 * (_IN_FLIGHT * EPOCH // AUCTIONS))
        category = FIRST_CATEGORY + int(draw() * CATEGORIES)
        extra = text.filling(48 + len(item) + len(description), _AUCTION_BYTES)
        value = (
            f'{{"id":{auction},"itemName":"{item}","description":"{description}","initialBid":{initial},'
            f'"reserve":{reserve},"dateTime":{timestamp},"expires":{expires},"seller":{seller},'
            f'"category":{category},"extra":"{extra}"}}'
        )
        return Event("auction", auction, value.encode(), timestamp)


class _Bids:
    def __init__(self, rng: random.Random) -> None:
        self._random, self._text = rng.random, _Text(rng)
        self._channels = [(name, self._url()) for name in _HOT_CHANNELS]
        self._rare = [(f"channel-{n}", f"{self._url()}&channel_id={n * 7919 % 10_007}") for n in range(_CHANNELS)]

    def _url(self) -> str:
        path = "/".join(self._text.of(5) for _ in range(3))
        return f"https://www.nexmark.com/{path}/item.htm?query=1"

    def __call__(self, number: int, timestamp: int) -> Event:
        draw = self._random
        last = _last_auction(number)
        if draw() < 1 / 2:
            auction = FIRST_ID + last // _HOT_EVERY * _HOT_EVERY
        else:
            first = max(0, last - _IN_FLIGHT)
            auction = FIRST_ID + first + int(draw() * (last - first + 1 + _LEAD))
        bidder, price = FIRST_ID + _person(number, draw, hot=3 / 4, place=1), _price(draw)
        channels = self._channels if draw() < 1 / 2 else self._rare
        channel, url = channels[int(draw() * len(channels))]
        value = (
            f'{{"auction":{auction},"bidder":{bidder},"price":{price},"channel":"{channel}","url":"{url}",'
            f'"dateTime":{timestamp},"extra":"{self._text.filling(32, _BID_BYTES)}"}}'
        )
        return Event("bid", auction, value.encode(), timestamp)


def _last_person(number: int) -> int:
    """The number of the newest person once this event has happened."""
    return number // EPOCH * PERSONS + min(number % EPOCH, PERSONS - 1)


def _last_auction(number: int) -> int:
    return number // EPOCH * AUCTIONS + min(number % EPOCH - PERSONS, AUCTIONS - 1)


def _person(number: int, draw: Callable[[], float], hot: float, place: int) -> int:
    """Returns a hot person (each hundred has one), an active one, or one of the next to come."""
    last = _last_person(number)
    if draw() < hot:
        return last // _HOT_EVERY * _HOT_EVERY + place
    active = min(last + 1, _ACTIVE_PERSONS)
    return last + 1 - active + int(draw() * (active + _LEAD))


def _price(draw: Callable[[], float]) -> int:
    """From 100 to 100 million, evenly by its logarithm."""
    return round(10 ** (draw() * 6) * 100)
