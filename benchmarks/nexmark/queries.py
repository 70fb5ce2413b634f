"""Nexmark's queries as workloads: the topics that each reads, and what must come of it. Further programs over the same
records, whose instructions are counted.

Read by ``cases.py`` and ``instructions.py``; plain data. Persons and auctions have their ids as keys, bids their
auction's; a record's time is that of its event. A query reads the topics that it needs, its second one is ``right``.
The rates count the records of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.nexmark import answers
from benchmarks.nexmark.events import events
from benchmarks.workloads import LastCounts, Message, Reckoning, Workload


def _messages(kind: str, right: str = "") -> Callable[[], Iterator[Message]]:
    def made() -> Iterator[Message]:
        for event in events((kind, right)):
            yield Message(event.key.to_bytes(8, "big"), event.value, event.timestamp, event.kind == right)

    return made


def _query(
    name: str,
    title: str,
    records: int,
    messages: Callable[[], Iterator[Message]],
    expected: Callable[[], Reckoning],
    found: Callable[[], Reckoning],
    sample: int = 0,
) -> Workload:
    two_topics = messages in (_BIDS_AND_AUCTIONS, _AUCTIONS_AND_PERSONS)
    return Workload(f"nexmark-{name}", title, records, sample, messages, expected, found, two_topics=two_topics)


_BIDS = _messages("bid")
_BIDS_AND_AUCTIONS = _messages("bid", right="auction")
_AUCTIONS_AND_PERSONS = _messages("auction", right="person")

NEXMARK = {
    workload.name.removeprefix("nexmark-"): workload
    for workload in (
        _query("q1", "prices of bids in euros", 5_000_000, _BIDS, answers.each(answers.in_euros), answers.each_json,
               sample=300_000),
        _query("q2", "bids for some auctions", 7_000_000, _BIDS, answers.each(answers.selected), answers.each_json,
               sample=300_000),
        _query("q3", "auctions of a category and their sellers in three states", 1_500_000, _AUCTIONS_AND_PERSONS,
               answers.LocalItems, answers.last_json),
        _query("q4", "average of the winning bids of each category", 2_500_000, _BIDS_AND_AUCTIONS,
               answers.AveragePrices, answers.last_bytes),
        _query("q5", "auctions with the most bids in 10 s, every 2 s", 500_000, _BIDS, answers.HotItems,
               answers.last_json),
        _query("q6", "average of each seller's last ten winning bids", 2_000_000, _BIDS_AND_AUCTIONS,
               answers.AveragesOfSellers, answers.last_bytes),
        _query("q7", "highest bid in 10 s", 2_500_000, _BIDS, answers.HighestBids, answers.last_json),
        _query("q8", "persons who came and opened auctions in the same 10 s", 1_500_000, _AUCTIONS_AND_PERSONS,
               answers.NewUsers, answers.each_json),
        _query("q11", "bids of each session of a bidder", 2_000_000, _BIDS, answers.Sessions, LastCounts),
        _query("q12", "bids of each bidder in 10 s of the time of processing", 2_500_000, _BIDS, answers.OfBidders,
               answers.CountsOfWindows, sample=100_000),
        _query("q18", "last bid of each bidder for each auction", 1_500_000, _BIDS, answers.LastBids,
               answers.last_json, sample=50_000),
        _query("q19", "ten highest bids of each auction", 1_000_000, _BIDS, answers.TopBids, answers.last_json,
               sample=50_000),
        _query("q20", "bids with their auctions, of one category", 2_500_000, _BIDS_AND_AUCTIONS,
               answers.ExpandedBids, answers.each_json, sample=100_000),
    )
}  # fmt: skip

#: Other ways to write queries: dictionaries instead of classes, and a join of two tables.
SHAPES = tuple(
    replace(NEXMARK[query], name=f"shape-{name}", title=title)
    for name, query, title in (
        ("join-of-dictionaries", "q20", "bids with their auctions, both as dictionaries"),
        ("reduce-of-dictionaries", "q18", "highest bid of each auction, as a dictionary that mostly stays"),
        ("join-of-tables", "q20", "last bid of each auction with the auction"),
    )
)
