"""The queries of Nexmark that Quix Streams can say, as a user writes them.

Built by ``quix_app.py``. Keys are bytes and values JSON. Winning bids (q4, q6) need a table that takes results back, q3
a foreign-key join, q5 the windows of a window, q8 a join in tumbling windows, q11 sessions that show their merges: Quix
has none of these.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.nexmark.answers import CATEGORY, EVERY, GRACE, PERIOD, TO_EUROS, TOP
from benchmarks.systems.job import Job
from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models import Serializer
from quixstreams.state import State

Row = dict[str, Any]


class WindowCount(Serializer):
    """The count alone: the window is in the key."""

    def __call__(self, value: Any, ctx: Any) -> bytes:
        count: int = value[1]
        return count.to_bytes(8, "big")


def currency(bids: StreamingDataFrame) -> StreamingDataFrame:
    def in_euros(bid: Row) -> Row:
        kept = {name: bid[name] for name in ("auction", "bidder", "dateTime", "extra")}
        return {**kept, "price": TO_EUROS * bid["price"]}

    return bids.apply(in_euros)


def selection(bids: StreamingDataFrame) -> StreamingDataFrame:
    chosen = bids.filter(lambda bid: bid["auction"] % EVERY == 0)
    return chosen.apply(lambda bid: {"auction": bid["auction"], "price": bid["price"]})


def last_bid(bids: StreamingDataFrame) -> StreamingDataFrame:
    def last(bid: Row, state: State) -> Row:
        known: Row = state.get("last", bid)
        if bid["dateTime"] >= known["dateTime"]:
            known = bid
        state.set("last", known)
        return known

    return by_bytes(bids, "pair", lambda bid: b"%d-%d" % (bid["bidder"], bid["auction"])).apply(last, stateful=True)


def top_bids(bids: StreamingDataFrame) -> StreamingDataFrame:
    def among(bid: Row, state: State) -> Row:
        top = sorted([*state.get("top", []), bid], key=lambda each: (-each["price"], each["dateTime"]))[:TOP]
        state.set("top", top)
        return {"bids": top}

    return bids.apply(among, stateful=True)


def expanded_bids(bids: StreamingDataFrame, auctions: StreamingDataFrame) -> StreamingDataFrame:
    def expanded(bid: Row, auction: Row) -> Row:
        of_auction = {"opened": auction["dateTime"], "auctionExtra": auction["extra"]}
        own = ("itemName", "description", "initialBid", "reserve", "expires", "seller", "category")
        return {**bid, **{name: auction[name] for name in own}, **of_auction}

    chosen = auctions.filter(lambda auction: auction["category"] == CATEGORY)
    return bids.join_asof(chosen, how="inner", on_merge=expanded)


def of_bidders(bids: StreamingDataFrame) -> StreamingDataFrame:
    """In windows of the time of processing: of the time at which a record is on the way to its bidder's partition."""
    keyed = by_bytes(bids, "bidder", lambda bid: bid["bidder"].to_bytes(8, "big"))
    keyed = keyed.set_timestamp(lambda value, key, timestamp, headers: int(time.time() * 1000))
    counts = keyed.tumbling_window(PERIOD, GRACE).count().current()
    return counts.apply(
        lambda value, key, timestamp, headers: (key + value["start"].to_bytes(8, "big"), value["value"]), metadata=True
    )


def by_bytes(bids: StreamingDataFrame, name: str, key: Any) -> StreamingDataFrame:
    return bids.group_by(
        key,
        name=name,
        key_serializer="bytes",
        key_deserializer="bytes",
        value_serializer="json",
        value_deserializer="json",
    )


def build(application: Application, job: Job, progress: Any) -> None:
    def source(name: str) -> StreamingDataFrame:
        topic = application.topic(name, value_deserializer="json", key_deserializer="bytes")
        return application.dataframe(topic).update(progress.begin)

    query = job.workload.removeprefix("nexmark-")
    bids = source(job.input)
    if query == "q12":
        counts = of_bidders(bids).update(progress.count)
        output = application.topic(job.output, value_serializer=WindowCount(), key_serializer="bytes")
        counts.to_topic(output, key=lambda value: value[0])
        return
    if query == "q20":
        found = expanded_bids(bids.update(progress.count), source(job.right).update(progress.count))
    elif query == "q18":
        found = last_bid(bids).update(progress.count)
    else:
        simple = {"q1": currency, "q2": selection, "q19": top_bids}
        found = simple[query](bids.update(progress.count))
    found.to_topic(application.topic(job.output, value_serializer="json", key_serializer="bytes"))
