import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.WallclockTimestampExtractor;

/** The queries of Nexmark, as a user writes them, without options; widths as in nexmark/answers.py. */
final class Nexmark {
  private static final Serde<Long> LONG = Serdes.Long();
  private static final Serde<Double> DOUBLE = Serdes.Double();
  private static final Serde<String> TEXT = Serdes.String();
  private static final Serde<NexmarkTypes.Person> PERSON = JsonSerde.of(NexmarkTypes.Person.class);
  private static final Serde<NexmarkTypes.Auction> AUCTION = JsonSerde.of(NexmarkTypes.Auction.class);
  private static final Serde<NexmarkTypes.Bid> BID = JsonSerde.of(NexmarkTypes.Bid.class);
  private static final Serde<NexmarkTypes.Offer> OFFER = JsonSerde.of(NexmarkTypes.Offer.class);

  private static final long PERIOD_MS = 10_000;
  private static final Duration PERIOD = Duration.ofMillis(PERIOD_MS);
  private static final Duration ADVANCE = Duration.ofSeconds(2);
  private static final Duration GAP = Duration.ofSeconds(10);
  private static final Duration GRACE = Duration.ofDays(1);
  private static final double TO_EUROS = 0.908;
  private static final long CATEGORY = 10;
  private static final Set<String> STATES = Set.of("OR", "ID", "CA");
  private static final int TOP = 10;

  private final StreamsBuilder builder;
  private final Job job;
  private final Marks marks;

  private Nexmark(StreamsBuilder builder, Job job, Marks marks) {
    this.builder = builder;
    this.job = job;
    this.marks = marks;
  }

  static void build(StreamsBuilder builder, Job job, Marks marks) {
    Nexmark queries = new Nexmark(builder, job, marks);
    switch (job.workload().substring("nexmark-".length())) {
      case "q1" -> queries.currency();
      case "q2" -> queries.selection();
      case "q3" -> queries.localItems();
      case "q4" -> queries.averagePrice();
      case "q5" -> queries.hotItems();
      case "q6" -> queries.averageOfSeller();
      case "q7" -> queries.highestBid();
      case "q8" -> queries.newUsers();
      case "q11" -> queries.sessions();
      case "q12" -> queries.processingTime();
      case "q18" -> queries.lastBid();
      case "q19" -> queries.topBids();
      case "q20" -> queries.expandedBids();
      default -> throw new IllegalArgumentException("unknown workload " + job.workload());
    }
  }

  private void currency() {
    bids()
        .mapValues(
            bid ->
                new NexmarkTypes.BidInEuros(
                    bid.auction(), bid.bidder(), TO_EUROS * bid.price(), bid.dateTime(), bid.extra()))
        .to(job.output(), Produced.with(LONG, JsonSerde.of(NexmarkTypes.BidInEuros.class)));
  }

  private void selection() {
    bids()
        .filter((auction, bid) -> bid.auction() % 123 == 0)
        .mapValues(bid -> new NexmarkTypes.Price(bid.auction(), bid.price()))
        .to(job.output(), Produced.with(LONG, JsonSerde.of(NexmarkTypes.Price.class)));
  }

  private void localItems() {
    KTable<Long, NexmarkTypes.Auction> auctions = builder.table(job.input(), counted(AUCTION));
    KTable<Long, NexmarkTypes.Person> persons = builder.table(job.right(), counted(PERSON));
    auctions
        .filter((id, auction) -> auction.category() == CATEGORY)
        .join(
            persons.filter((id, person) -> STATES.contains(person.state())),
            NexmarkTypes.Auction::seller,
            (auction, person) ->
                new NexmarkTypes.LocalItem(person.name(), person.city(), person.state(), auction.id()))
        .toStream()
        .to(job.output(), Produced.with(LONG, JsonSerde.of(NexmarkTypes.LocalItem.class)));
  }

  private void averagePrice() {
    winningBids()
        .groupBy((auction, offer) -> KeyValue.pair(offer.category(), offer.price()), Grouped.with(LONG, LONG))
        .aggregate(
            () -> new NexmarkTypes.Average(0, 0),
            (category, price, average) -> new NexmarkTypes.Average(average.total() + price, average.count() + 1),
            (category, price, average) -> new NexmarkTypes.Average(average.total() - price, average.count() - 1),
            Materialized.with(LONG, JsonSerde.of(NexmarkTypes.Average.class)))
        .mapValues(average -> average.count() == 0 ? 0.0 : (double) average.total() / average.count())
        .toStream()
        .to(job.output(), Produced.with(LONG, DOUBLE));
  }

  private void hotItems() {
    Serde<NexmarkTypes.HotItems> hotItems = JsonSerde.of(NexmarkTypes.HotItems.class);
    bids()
        .groupByKey(Grouped.with(LONG, BID))
        .windowedBy(TimeWindows.ofSizeWithNoGrace(PERIOD).advanceBy(ADVANCE))
        .count()
        .toStream()
        .map(
            (window, num) ->
                KeyValue.pair(window.window().start(), new NexmarkTypes.AuctionBids(window.key(), num)))
        .groupByKey(Grouped.with(LONG, JsonSerde.of(NexmarkTypes.AuctionBids.class)))
        .aggregate(
            () -> new NexmarkTypes.HotItems(0, List.of()),
            (start, bids, hot) -> hotter(bids, hot),
            Materialized.with(LONG, hotItems))
        .toStream()
        .to(job.output(), Produced.with(LONG, hotItems));
  }

  private void averageOfSeller() {
    winningBids()
        .groupBy(
            (auction, offer) ->
                KeyValue.pair(offer.seller(), new NexmarkTypes.Sale(auction, offer.expires(), offer.price())),
            Grouped.with(LONG, JsonSerde.of(NexmarkTypes.Sale.class)))
        .aggregate(
            () -> new NexmarkTypes.LastSales(List.of()),
            (seller, sale, last) -> with(sale, last),
            (seller, sale, last) -> without(sale, last),
            Materialized.with(LONG, JsonSerde.of(NexmarkTypes.LastSales.class)))
        .mapValues(
            last -> {
              long total = last.sales().stream().mapToLong(NexmarkTypes.Sale::price).sum();
              return last.sales().isEmpty() ? 0.0 : (double) total / last.sales().size();
            })
        .toStream()
        .to(job.output(), Produced.with(LONG, DOUBLE));
  }

  private void highestBid() {
    bids()
        .groupBy((auction, bid) -> "all", Grouped.with(TEXT, BID))
        .windowedBy(TimeWindows.ofSizeAndGrace(PERIOD, GRACE))
        .reduce(Nexmark::higher)
        .toStream((window, bid) -> window.window().start())
        .to(job.output(), Produced.with(LONG, BID));
  }

  private void newUsers() {
    KStream<Long, NexmarkTypes.Auction> auctions = builder.stream(job.input(), counted(AUCTION));
    KStream<Long, NexmarkTypes.Person> persons = builder.stream(job.right(), counted(PERSON));
    persons
        .join(
            auctions.selectKey((id, auction) -> auction.seller()),
            (person, auction) ->
                new NexmarkTypes.Seller(person.id(), person.name(), person.dateTime(), auction.dateTime()),
            JoinWindows.ofTimeDifferenceAndGrace(PERIOD, GRACE),
            StreamJoined.with(LONG, PERSON, AUCTION))
        .filter((id, seller) -> seller.entered() / PERIOD_MS == seller.opened() / PERIOD_MS)
        .mapValues(
            seller ->
                new NexmarkTypes.NewUser(
                    seller.id(), seller.name(), seller.entered() / PERIOD_MS * PERIOD_MS))
        .to(job.output(), Produced.with(LONG, JsonSerde.of(NexmarkTypes.NewUser.class)));
  }

  private void sessions() {
    bids()
        .groupBy((auction, bid) -> bid.bidder(), Grouped.with(LONG, BID))
        .windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, GRACE))
        .count()
        .toStream()
        .to(job.output(), Produced.with(new WindowedSerdes.SessionWindowedSerde<>(LONG), LONG));
  }

  private void processingTime() {
    Consumed<Long, NexmarkTypes.Bid> consumed =
        Consumed.with(LONG, BID).withTimestampExtractor(new WallclockTimestampExtractor());
    builder.stream(job.input(), consumed)
        .peek((auction, bid) -> marks.count(1))
        .groupBy((auction, bid) -> bid.bidder(), Grouped.with(LONG, BID))
        .windowedBy(TimeWindows.ofSizeAndGrace(PERIOD, GRACE))
        .count()
        .toStream()
        .to(job.output(), Produced.with(new WindowedSerdes.TimeWindowedSerde<>(LONG, PERIOD_MS), LONG));
  }

  private void lastBid() {
    bids()
        .groupBy((auction, bid) -> bid.bidder() + "-" + bid.auction(), Grouped.with(TEXT, BID))
        .reduce((last, bid) -> bid.dateTime() >= last.dateTime() ? bid : last)
        .toStream()
        .to(job.output(), Produced.with(TEXT, BID));
  }

  private void topBids() {
    Serde<NexmarkTypes.TopBids> topBids = JsonSerde.of(NexmarkTypes.TopBids.class);
    bids()
        .groupByKey(Grouped.with(LONG, BID))
        .aggregate(
            () -> new NexmarkTypes.TopBids(List.of()),
            (auction, bid, top) -> among(bid, top),
            Materialized.with(LONG, topBids))
        .toStream()
        .to(job.output(), Produced.with(LONG, topBids));
  }

  private void expandedBids() {
    KTable<Long, NexmarkTypes.Auction> auctions =
        builder.table(job.right(), counted(AUCTION)).filter((id, auction) -> auction.category() == CATEGORY);
    builder.stream(job.input(), counted(BID))
        .join(auctions, Nexmark::expanded, Joined.with(LONG, BID, AUCTION))
        .to(job.output(), Produced.with(LONG, JsonSerde.of(NexmarkTypes.ExpandedBid.class)));
  }

  private KStream<Long, NexmarkTypes.Bid> bids() {
    return builder.stream(job.input(), counted(BID));
  }

  private KTable<Long, NexmarkTypes.Offer> winningBids() {
    KTable<Long, NexmarkTypes.Auction> auctions = builder.table(job.right(), counted(AUCTION));
    return bids()
        .join(
            auctions,
            (bid, auction) ->
                new NexmarkTypes.Offer(
                    bid.price(),
                    bid.dateTime(),
                    auction.dateTime(),
                    auction.expires(),
                    auction.seller(),
                    auction.category()),
            Joined.with(LONG, BID, AUCTION))
        .filter(
            (auction, offer) -> offer.opened() <= offer.dateTime() && offer.dateTime() <= offer.expires())
        .groupByKey(Grouped.with(LONG, OFFER))
        .reduce((best, offer) -> offer.price() > best.price() ? offer : best);
  }

  /** Tables have no peek: the extractor of timestamps, which is the default one else, counts the records. */
  private <V> Consumed<Long, V> counted(Serde<V> serde) {
    return Consumed.with(LONG, serde)
        .withTimestampExtractor(
            (record, before) -> {
              marks.count(1);
              return record.timestamp();
            });
  }

  /** The first of equal ones. */
  private static NexmarkTypes.Bid higher(NexmarkTypes.Bid best, NexmarkTypes.Bid bid) {
    boolean earlier = bid.price() == best.price() && bid.dateTime() < best.dateTime();
    return bid.price() > best.price() || earlier ? bid : best;
  }

  private static NexmarkTypes.HotItems hotter(NexmarkTypes.AuctionBids bids, NexmarkTypes.HotItems hot) {
    if (bids.num() > hot.num()) {
      return new NexmarkTypes.HotItems(bids.num(), List.of(bids.auction()));
    }
    if (bids.num() < hot.num() || hot.auctions().contains(bids.auction())) {
      return hot;
    }
    List<Long> auctions = new ArrayList<>(hot.auctions());
    auctions.add(bids.auction());
    auctions.sort(Comparator.naturalOrder());
    return new NexmarkTypes.HotItems(hot.num(), auctions);
  }

  private static NexmarkTypes.LastSales with(NexmarkTypes.Sale sale, NexmarkTypes.LastSales last) {
    List<NexmarkTypes.Sale> sales = new ArrayList<>(last.sales());
    sales.add(sale);
    sales.sort(
        Comparator.comparingLong(NexmarkTypes.Sale::expires).thenComparingLong(NexmarkTypes.Sale::auction));
    return new NexmarkTypes.LastSales(sales.subList(Math.max(0, sales.size() - TOP), sales.size()));
  }

  private static NexmarkTypes.LastSales without(NexmarkTypes.Sale sale, NexmarkTypes.LastSales last) {
    return new NexmarkTypes.LastSales(
        last.sales().stream().filter(each -> each.auction() != sale.auction()).toList());
  }

  private static NexmarkTypes.TopBids among(NexmarkTypes.Bid bid, NexmarkTypes.TopBids top) {
    List<NexmarkTypes.Bid> bids = new ArrayList<>(top.bids());
    bids.add(bid);
    bids.sort(
        Comparator.comparingLong(NexmarkTypes.Bid::price)
            .reversed()
            .thenComparingLong(NexmarkTypes.Bid::dateTime));
    return new NexmarkTypes.TopBids(bids.subList(0, Math.min(TOP, bids.size())));
  }

  private static NexmarkTypes.ExpandedBid expanded(NexmarkTypes.Bid bid, NexmarkTypes.Auction auction) {
    return new NexmarkTypes.ExpandedBid(
        bid.auction(),
        bid.bidder(),
        bid.price(),
        bid.channel(),
        bid.url(),
        bid.dateTime(),
        bid.extra(),
        auction.itemName(),
        auction.description(),
        auction.initialBid(),
        auction.reserve(),
        auction.dateTime(),
        auction.expires(),
        auction.seller(),
        auction.category(),
        auction.extra());
  }
}
