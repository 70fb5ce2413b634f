import java.time.Duration;
import java.util.Arrays;
import java.util.BitSet;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/** The topologies of W5 to W9, in which time matters; widths and graces as in workloads_in_time.py. */
final class InTime {
  private static final Serde<byte[]> BYTES = Serdes.ByteArray();
  private static final Duration GRACE = Duration.ofSeconds(10);
  private static final Duration MINUTE = Duration.ofMinutes(1);
  private static final int CUSTOMER_BYTES = 12;

  private InTime() {}

  static void countWindows(StreamsBuilder builder, Job job, Marks marks) {
    TimeWindows tumbling = TimeWindows.ofSizeAndGrace(MINUTE, GRACE);
    boolean hopping = job.workload().startsWith("w5-hopping");
    grouped(builder, job, marks)
        .windowedBy(hopping ? tumbling.advanceBy(Duration.ofSeconds(10)) : tumbling)
        .count(Materialized.as("counts"))
        .toStream()
        .to(
            job.output(),
            Produced.with(new WindowedSerdes.TimeWindowedSerde<>(BYTES, MINUTE.toMillis()), Serdes.Long()));
  }

  static void countSessions(StreamsBuilder builder, Job job, Marks marks) {
    grouped(builder, job, marks)
        .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(5), GRACE))
        .count(Materialized.as("counts"))
        .toStream()
        .to(job.output(), Produced.with(new WindowedSerdes.SessionWindowedSerde<>(BYTES), Serdes.Long()));
  }

  static void joinStreams(StreamsBuilder builder, Job job, Marks marks) {
    counted(builder, job.input(), marks)
        .join(
            counted(builder, job.right(), marks),
            InTime::concatenated,
            JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofSeconds(10)),
            StreamJoined.with(BYTES, BYTES, BYTES))
        .to(job.output(), Produced.with(BYTES, BYTES));
  }

  static void joinTable(StreamsBuilder builder, Job job, Marks marks) {
    KTable<byte[], byte[]> table = builder.table(job.right(), beginning(marks));
    counted(builder, job.input(), marks)
        .join(table, InTime::concatenated, Joined.with(BYTES, BYTES, BYTES))
        .to(job.output(), Produced.with(BYTES, BYTES));
  }

  /** Every order is new, so each is done once its first result is there; with a cache some get more than one. */
  static void joinForeign(StreamsBuilder builder, Job job, Marks marks) {
    BitSet done = new BitSet();
    KTable<byte[], byte[]> orders = builder.table(job.input(), beginning(marks));
    KTable<byte[], byte[]> customers = builder.table(job.right(), beginning(marks));
    orders
        .leftJoin(
            customers,
            order -> Arrays.copyOf(order, CUSTOMER_BYTES),
            (order, customer) -> customer == null ? order : concatenated(order, customer))
        .toStream()
        .peek(
            (key, value) -> {
              int order = Integer.parseInt(new String(key));
              if (!done.get(order)) {
                done.set(order);
                marks.count(1);
              }
            })
        .to(job.output(), Produced.with(BYTES, BYTES));
  }

  private static KGroupedStream<byte[], byte[]> grouped(StreamsBuilder builder, Job job, Marks marks) {
    return counted(builder, job.input(), marks).groupByKey(Grouped.with(BYTES, BYTES));
  }

  private static KStream<byte[], byte[]> counted(StreamsBuilder builder, String topic, Marks marks) {
    return builder.stream(topic, Consumed.with(BYTES, BYTES)).peek((key, value) -> marks.count(1));
  }

  /** Tables have no peek: the extractor of timestamps sees the first record. */
  private static Consumed<byte[], byte[]> beginning(Marks marks) {
    return Consumed.with(BYTES, BYTES)
        .withTimestampExtractor(
            (record, before) -> {
              marks.begin();
              return record.timestamp();
            });
  }

  private static byte[] concatenated(byte[] left, byte[] right) {
    byte[] both = Arrays.copyOf(left, left.length + right.length);
    System.arraycopy(right, 0, both, left.length, right.length);
    return both;
  }
}
