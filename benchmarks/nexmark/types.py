"""The records of Nexmark and of its results, as a user of Python writes them. The names are those of the JSON.

Read by ``systems/streamsapp_nexmark.py``; plain data.
"""

# ruff: noqa: N815 - the names of Nexmark's fields

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Person:
    id: int
    name: str
    emailAddress: str
    creditCard: str
    city: str
    state: str
    dateTime: int
    extra: str


@dataclass
class Auction:
    id: int
    itemName: str
    description: str
    initialBid: int
    reserve: int
    dateTime: int
    expires: int
    seller: int
    category: int
    extra: str


@dataclass
class Bid:
    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    dateTime: int
    extra: str


@dataclass
class BidInEuros:
    """Q1."""

    auction: int
    bidder: int
    price: float
    dateTime: int
    extra: str


@dataclass
class Price:
    """Q2."""

    auction: int
    price: int


@dataclass
class LocalItem:
    """Q3."""

    name: str
    city: str
    state: str
    id: int


@dataclass
class Offer:
    """Q4 and Q6: a bid with what they need to know of its auction."""

    price: int
    dateTime: int
    opened: int
    expires: int
    seller: int
    category: int


@dataclass
class Average:
    """Q4."""

    total: int = 0
    count: int = 0


@dataclass
class AuctionBids:
    """Q5: the bids of an auction in a window."""

    auction: int
    num: int


@dataclass
class HotItems:
    """Q5: the auctions of a window that have the most bids."""

    num: int = 0
    auctions: list[int] = field(default_factory=list)


@dataclass
class Sale:
    """Q6."""

    auction: int
    expires: int
    price: int


@dataclass
class LastSales:
    """Q6: of one seller, the oldest first."""

    sales: list[Sale] = field(default_factory=list)


@dataclass
class Seller:
    """Q8: a person with the time of an auction of theirs."""

    id: int
    name: str
    entered: int
    opened: int


@dataclass
class NewUser:
    """Q8."""

    id: int
    name: str
    starttime: int


@dataclass
class TopBids:
    """Q19: of one auction, the highest first."""

    bids: list[Bid] = field(default_factory=list)


@dataclass
class ExpandedBid:
    """Q20."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    dateTime: int
    extra: str
    itemName: str
    description: str
    initialBid: int
    reserve: int
    opened: int
    expires: int
    seller: int
    category: int
    auctionExtra: str
