import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/** Runs one workload on Kafka Streams until the last record is processed, flushed and committed. */
public final class Bench {
  private static final int SETTLED_LOOKS = 10;
  private static final long LOOK_MS = 100;

  private Bench() {}

  public static void main(String[] args) throws Exception {
    Job job = new ObjectMapper().readValue(args[0], Job.class);
    Marks marks = new Marks(job.records());
    Properties properties = properties(job);
    if (job.workload().equals("restore")) {
      marks.begin();
    }
    do {
      start(job, marks, properties);
      // What caches hold goes on at the commit of closing: another start processes it. Its time counts.
    } while (job.hasSteps() && Internal.unread(job, connection(job)));
    Marks.print("CLOSED", job.records());
    while (System.in.read() >= 0) {
      // The driver reads this process' figures, then closes standard input.
    }
    Runtime.getRuntime().halt(0);
  }

  private static void start(Job job, Marks marks, Properties properties) throws Exception {
    CountDownLatch running = new CountDownLatch(1);
    boolean restores = job.workload().equals("restore");
    KafkaStreams streams = new KafkaStreams(Workloads.build(job, marks).build(properties), properties);
    streams.setUncaughtExceptionHandler(
        failure -> {
          failure.printStackTrace();
          Runtime.getRuntime().halt(1);
          return null;
        });
    if (restores || job.workload().equals("w4")) {
      streams.setGlobalStateRestoreListener(restoreListener(marks));
    }
    streams.setStateListener(
        (now, before) -> {
          if (now == KafkaStreams.State.RUNNING) {
            running.countDown();
          }
        });
    streams.start();
    if (job.workload().equals("w4-check")) {
      running.await();
      Marks.print("STORE", entries(streams));
    } else {
      marks.awaitLast();
    }
    if (job.hasSteps()) {
      running.await();
      settle(streams);
      Marks.print("LAST", job.records());
    }
    if (restores) {
      running.await();
      Marks.print("RUNNING", job.records());
    }
    // Leaves the group, or the next start of this application would wait for the session timeout.
    streams.close(
        CloseOptions.timeout(Duration.ofMinutes(5))
            .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
  }

  /** Returns once nothing has been processed for a second: what is on its way between two steps has arrived. */
  private static void settle(KafkaStreams streams) throws InterruptedException {
    double before = -1;
    for (int same = 0; same < SETTLED_LOOKS; ) {
      Thread.sleep(LOOK_MS);
      double processed =
          streams.metrics().values().stream()
              .filter(metric -> metric.metricName().name().equals("process-total"))
              .filter(metric -> metric.metricName().group().equals("stream-thread-metrics"))
              .mapToDouble(metric -> (double) metric.metricValue())
              .sum();
      same = processed == before ? same + 1 : 0;
      before = processed;
    }
  }

  private static Properties connection(Job job) {
    Properties connection = new Properties();
    connection.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, job.bootstrapServers());
    connection.putAll(job.connection());
    return connection;
  }

  private static Properties properties(Job job) {
    Properties properties = connection(job);
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, job.applicationId());
    properties.put(StreamsConfig.STATE_DIR_CONFIG, job.stateDir());
    properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, job.threads());
    properties.put(
        StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
        job.exactlyOnce() ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
    properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, job.commitInterval());
    properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, job.cacheBytes());
    properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    return properties;
  }

  private static long entries(KafkaStreams streams) {
    long entries = 0;
    try (KeyValueIterator<byte[], byte[]> all =
        streams
            .store(StoreQueryParameters.fromNameAndType("store", QueryableStoreTypes.<byte[], byte[]>keyValueStore()))
            .all()) {
      for (; all.hasNext(); all.next()) {
        entries++;
      }
    }
    return entries;
  }

  private static StateRestoreListener restoreListener(Marks marks) {
    return new StateRestoreListener() {
      @Override
      public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
        marks.begin();
      }

      @Override
      public void onBatchRestored(TopicPartition partition, String store, long end, long restored) {
        marks.count(restored);
      }

      @Override
      public void onRestoreEnd(TopicPartition partition, String store, long total) {}
    };
  }
}
