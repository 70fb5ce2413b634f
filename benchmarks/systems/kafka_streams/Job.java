import java.util.Map;

/** One run, as the driver describes it in JSON on the command line. */
public record Job(
    String workload,
    String variant,
    String applicationId,
    String bootstrapServers,
    String input,
    String output,
    long records,
    String stateDir,
    Map<String, String> remoteState,
    String right,
    int commitIntervalMs,
    Map<String, String> connection,
    String client) {

  private static final long MIB = 1024 * 1024;

  /** Size of the record cache; 10 MiB, Kafka Streams' own default, where the variant names none. */
  long cacheBytes() {
    if (variant.endsWith("cache-0")) {
      return 0;
    }
    return variant.endsWith("cache-512m") ? 512 * MIB : 10 * MIB;
  }

  /** Stream threads; one where the variant names no number. */
  int threads() {
    return variant.startsWith("threads-2-") ? 2 : 1;
  }

  /** Milliseconds between two commits; Kafka Streams' default for the guarantee where the job names none. */
  int commitInterval() {
    return commitIntervalMs > 0 ? commitIntervalMs : exactlyOnce() ? 100 : 30_000;
  }

  /** Whether records may be on their way between steps once the input is read. */
  boolean hasSteps() {
    return workload.startsWith("nexmark-");
  }

  /** Whether the variant asks for exactly once. */
  boolean exactlyOnce() {
    return variant.startsWith("eos-");
  }
}
