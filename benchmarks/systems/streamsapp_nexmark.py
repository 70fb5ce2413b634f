"""The queries of Nexmark on streamsapp, as a user writes them, without options; and other programs over its records.

Built by ``streamsapp_app.py``. Widths are those of ``nexmark/answers.py``.
"""

from __future__ import annotations

from benchmarks.nexmark.answers import ADVANCE, CATEGORY, EVERY, GAP, GRACE, PERIOD, STATES, TO_EUROS, TOP
from benchmarks.nexmark.types import (
    Auction,
    AuctionBids,
    Average,
    Bid,
    BidInEuros,
    ExpandedBid,
    HotItems,
    LastSales,
    LocalItem,
    NewUser,
    Offer,
    Person,
    Price,
    Sale,
    Seller,
    TopBids,
)
from benchmarks.systems.job import Job

from streamsapp import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
)
from streamsapp.processor.timestamps import wallclock_timestamp

LONG, DOUBLE, TEXT, ANY = Serdes.long(), Serdes.double(), Serdes.string(), Serdes.json()
PERSON, AUCTION, BID, OFFER = Serdes.json(Person), Serdes.json(Auction), Serdes.json(Bid), Serdes.json(Offer)


def q1_currency(builder: StreamsBuilder, job: Job) -> None:
    bids(builder, job).map_values(
        lambda bid: BidInEuros(bid.auction, bid.bidder, TO_EUROS * bid.price, bid.dateTime, bid.extra)
    ).to(job.output, Produced(LONG, Serdes.json(BidInEuros)))


def q2_selection(builder: StreamsBuilder, job: Job) -> None:
    (
        bids(builder, job)
        .filter(lambda auction, bid: bid.auction % EVERY == 0)
        .map_values(lambda bid: Price(bid.auction, bid.price))
        .to(job.output, Produced(LONG, Serdes.json(Price)))
    )


def q3_local_items(builder: StreamsBuilder, job: Job) -> None:
    auctions = builder.table(job.input, Consumed(LONG, AUCTION))
    persons = builder.table(job.right, Consumed(LONG, PERSON))
    (
        auctions.filter(lambda auction_id, auction: auction.category == CATEGORY)
        .join(
            persons.filter(lambda person_id, person: person.state in STATES),
            lambda auction: auction.seller,
            lambda auction, person: LocalItem(person.name, person.city, person.state, auction.id),
        )
        .to_stream()
        .to(job.output, Produced(LONG, Serdes.json(LocalItem)))
    )


def q4_average_price(builder: StreamsBuilder, job: Job) -> None:
    (
        winning_bids(builder, job)
        .group_by(lambda auction, offer: (offer.category, offer.price), Grouped(LONG, LONG))
        .aggregate(
            Average,
            lambda category, price, average: Average(average.total + price, average.count + 1),
            lambda category, price, average: Average(average.total - price, average.count - 1),
            Materialized(LONG, Serdes.json(Average)),
        )
        .map_values(lambda average: average.total / average.count if average.count else 0.0)
        .to_stream()
        .to(job.output, Produced(LONG, DOUBLE))
    )


def q5_hot_items(builder: StreamsBuilder, job: Job) -> None:
    (
        bids(builder, job)
        .group_by_key(Grouped(LONG, BID))
        .windowed_by(TimeWindows.of(PERIOD).advance_by(ADVANCE))
        .count()
        .to_stream()
        .map(lambda window, num: (window.start_ms, AuctionBids(window.key, num)))
        .group_by_key(Grouped(LONG, Serdes.json(AuctionBids)))
        .aggregate(HotItems, hotter, Materialized(LONG, Serdes.json(HotItems)))
        .to_stream()
        .to(job.output, Produced(LONG, Serdes.json(HotItems)))
    )


def q6_average_of_seller(builder: StreamsBuilder, job: Job) -> None:
    (
        winning_bids(builder, job)
        .group_by(
            lambda auction, offer: (offer.seller, Sale(auction, offer.expires, offer.price)),
            Grouped(LONG, Serdes.json(Sale)),
        )
        .aggregate(LastSales, with_sale, without_sale, Materialized(LONG, Serdes.json(LastSales)))
        .map_values(lambda last: sum(sale.price for sale in last.sales) / len(last.sales) if last.sales else 0.0)
        .to_stream()
        .to(job.output, Produced(LONG, DOUBLE))
    )


def q7_highest_bid(builder: StreamsBuilder, job: Job) -> None:
    (
        bids(builder, job)
        .group_by(lambda auction, bid: "all", Grouped(TEXT, BID))
        .windowed_by(TimeWindows.of(PERIOD, grace=GRACE))
        .reduce(higher)
        .to_stream(lambda window, bid: window.start_ms)
        .to(job.output, Produced(LONG, BID))
    )


def q8_new_users(builder: StreamsBuilder, job: Job) -> None:
    auctions = builder.stream(job.input, Consumed(LONG, AUCTION))
    persons = builder.stream(job.right, Consumed(LONG, PERSON))
    (
        persons.join(
            auctions.select_key(lambda auction_id, auction: auction.seller),
            lambda person, auction: Seller(person.id, person.name, person.dateTime, auction.dateTime),
            JoinWindows.of(PERIOD, grace=GRACE),
            StreamJoined(LONG, PERSON, AUCTION),
        )
        .filter(lambda person, seller: seller.entered // PERIOD == seller.opened // PERIOD)
        .map_values(lambda seller: NewUser(seller.id, seller.name, seller.entered // PERIOD * PERIOD))
        .to(job.output, Produced(LONG, Serdes.json(NewUser)))
    )


def q11_sessions(builder: StreamsBuilder, job: Job) -> None:
    (
        bids(builder, job)
        .group_by(lambda auction, bid: bid.bidder, Grouped(LONG, BID))
        .windowed_by(SessionWindows.of(GAP, grace=GRACE))
        .count()
        .to_stream()
        .to(job.output, Produced(Serdes.session_windowed(LONG), LONG))
    )


def q12_processing_time(builder: StreamsBuilder, job: Job) -> None:
    (
        builder.stream(job.input, Consumed(LONG, BID, wallclock_timestamp))
        .group_by(lambda auction, bid: bid.bidder, Grouped(LONG, BID))
        .windowed_by(TimeWindows.of(PERIOD, grace=GRACE))
        .count()
        .to_stream()
        .to(job.output, Produced(Serdes.time_windowed(LONG, PERIOD), LONG))
    )


def q18_last_bid(builder: StreamsBuilder, job: Job) -> None:
    (
        bids(builder, job)
        .group_by(lambda auction, bid: f"{bid.bidder}-{bid.auction}", Grouped(TEXT, BID))
        .reduce(lambda last, bid: bid if bid.dateTime >= last.dateTime else last)
        .to_stream()
        .to(job.output, Produced(TEXT, BID))
    )


def q19_top_bids(builder: StreamsBuilder, job: Job) -> None:
    (
        bids(builder, job)
        .group_by_key(Grouped(LONG, BID))
        .aggregate(TopBids, among_top, Materialized(LONG, Serdes.json(TopBids)))
        .to_stream()
        .to(job.output, Produced(LONG, Serdes.json(TopBids)))
    )


def q20_expanded_bids(builder: StreamsBuilder, job: Job) -> None:
    auctions = builder.table(job.right, Consumed(LONG, AUCTION)).filter(
        lambda auction_id, auction: auction.category == CATEGORY
    )
    joined = bids(builder, job).join(auctions, expanded, Joined(LONG, BID, AUCTION))
    joined.to(job.output, Produced(LONG, Serdes.json(ExpandedBid)))


def bids(builder: StreamsBuilder, job: Job) -> KStream[int, Bid]:
    return builder.stream(job.input, Consumed(LONG, BID))


def winning_bids(builder: StreamsBuilder, job: Job) -> KTable[int, Offer]:
    auctions = builder.table(job.right, Consumed(LONG, AUCTION))
    return (
        bids(builder, job)
        .join(auctions, offer_of, Joined(LONG, BID, AUCTION))
        .filter(lambda auction, offer: offer.opened <= offer.dateTime <= offer.expires)
        .group_by_key(Grouped(LONG, OFFER))
        .reduce(lambda best, offer: offer if offer.price > best.price else best)
    )


def offer_of(bid: Bid, auction: Auction) -> Offer:
    return Offer(bid.price, bid.dateTime, auction.dateTime, auction.expires, auction.seller, auction.category)


def higher(best: Bid, bid: Bid) -> Bid:
    """The first of equal ones."""
    return bid if (bid.price, -bid.dateTime) > (best.price, -best.dateTime) else best


def hotter(start: int, bids: AuctionBids, hot: HotItems) -> HotItems:
    """The numbers of a window only grow, so an auction that once had the most is either overtaken or still there."""
    if bids.num > hot.num:
        return HotItems(bids.num, [bids.auction])
    if bids.num == hot.num:
        return HotItems(hot.num, sorted({*hot.auctions, bids.auction}))
    return hot


def with_sale(seller: int, sale: Sale, last: LastSales) -> LastSales:
    return LastSales(sorted([*last.sales, sale], key=lambda each: (each.expires, each.auction))[-TOP:])


def without_sale(seller: int, sale: Sale, last: LastSales) -> LastSales:
    return LastSales([each for each in last.sales if each.auction != sale.auction])


def among_top(auction: int, bid: Bid, top: TopBids) -> TopBids:
    return TopBids(sorted([*top.bids, bid], key=lambda each: (-each.price, each.dateTime))[:TOP])


def expanded(bid: Bid, auction: Auction) -> ExpandedBid:
    return ExpandedBid(
        bid.auction,
        bid.bidder,
        bid.price,
        bid.channel,
        bid.url,
        bid.dateTime,
        bid.extra,
        auction.itemName,
        auction.description,
        auction.initialBid,
        auction.reserve,
        auction.dateTime,
        auction.expires,
        auction.seller,
        auction.category,
        auction.extra,
    )


def join_of_dictionaries(builder: StreamsBuilder, job: Job) -> None:
    auctions = builder.table(job.right, Consumed(LONG, ANY))
    joined = builder.stream(job.input, Consumed(LONG, ANY)).join(
        auctions, lambda bid, auction: {**bid, "seller": auction["seller"]}, Joined(LONG, ANY, ANY)
    )
    joined.to(job.output, Produced(LONG, ANY))


def reduce_of_dictionaries(builder: StreamsBuilder, job: Job) -> None:
    (
        builder.stream(job.input, Consumed(LONG, ANY))
        .group_by_key(Grouped(LONG, ANY))
        .reduce(lambda best, bid: bid if bid["price"] > best["price"] else best)
        .to_stream()
        .to(job.output, Produced(LONG, ANY))
    )


def join_of_tables(builder: StreamsBuilder, job: Job) -> None:
    bids, auctions = builder.table(job.input, Consumed(LONG, BID)), builder.table(job.right, Consumed(LONG, AUCTION))
    bids.join(auctions, expanded).to_stream().to(job.output, Produced(LONG, Serdes.json(ExpandedBid)))


SHAPES = {
    "shape-join-of-dictionaries": join_of_dictionaries,
    "shape-reduce-of-dictionaries": reduce_of_dictionaries,
    "shape-join-of-tables": join_of_tables,
}
QUERIES = {
    "nexmark-q1": q1_currency,
    "nexmark-q2": q2_selection,
    "nexmark-q3": q3_local_items,
    "nexmark-q4": q4_average_price,
    "nexmark-q5": q5_hot_items,
    "nexmark-q6": q6_average_of_seller,
    "nexmark-q7": q7_highest_bid,
    "nexmark-q8": q8_new_users,
    "nexmark-q11": q11_sessions,
    "nexmark-q12": q12_processing_time,
    "nexmark-q18": q18_last_bid,
    "nexmark-q19": q19_top_bids,
    "nexmark-q20": q20_expanded_bids,
}
