import java.util.List;

/** The records of Nexmark and of its results, as in nexmark/types.py. */
final class NexmarkTypes {
  private NexmarkTypes() {}

  record Person(
      long id,
      String name,
      String emailAddress,
      String creditCard,
      String city,
      String state,
      long dateTime,
      String extra) {}

  record Auction(
      long id,
      String itemName,
      String description,
      long initialBid,
      long reserve,
      long dateTime,
      long expires,
      long seller,
      long category,
      String extra) {}

  record Bid(
      long auction, long bidder, long price, String channel, String url, long dateTime, String extra) {}

  record BidInEuros(long auction, long bidder, double price, long dateTime, String extra) {}

  record Price(long auction, long price) {}

  record LocalItem(String name, String city, String state, long id) {}

  record Offer(long price, long dateTime, long opened, long expires, long seller, long category) {}

  record Average(long total, long count) {}

  record AuctionBids(long auction, long num) {}

  record HotItems(long num, List<Long> auctions) {}

  record Sale(long auction, long expires, long price) {}

  record LastSales(List<Sale> sales) {}

  record Seller(long id, String name, long entered, long opened) {}

  record NewUser(long id, String name, long starttime) {}

  record TopBids(List<Bid> bids) {}

  record ExpandedBid(
      long auction,
      long bidder,
      long price,
      String channel,
      String url,
      long dateTime,
      String extra,
      String itemName,
      String description,
      long initialBid,
      long reserve,
      long opened,
      long expires,
      long seller,
      long category,
      String auctionExtra) {}
}
