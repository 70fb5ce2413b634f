import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;

/** The topology of each workload. */
final class Workloads {
  private static final Serde<byte[]> BYTES = Serdes.ByteArray();
  private static final Serde<String> STRING = Serdes.String();
  private static final Serde<Long> LONG = Serdes.Long();

  private Workloads() {}

  static StreamsBuilder build(Job job, Marks marks) {
    StreamsBuilder builder = new StreamsBuilder();
    switch (job.workload()) {
      case "w1-string" -> mapStrings(builder, job, marks);
      case "w1-json" -> mapJson(builder, job, marks);
      case "w2" -> countWords(builder, job, marks);
      case "w3" -> countKeys(builder, job, marks);
      case "w5-tumbling-1k", "w5-tumbling-500k", "w5-hopping-1k", "w5-hopping-500k" ->
          InTime.countWindows(builder, job, marks);
      case "w6" -> InTime.joinStreams(builder, job, marks);
      case "w7" -> InTime.joinTable(builder, job, marks);
      case "w8" -> InTime.countSessions(builder, job, marks);
      case "w9" -> InTime.joinForeign(builder, job, marks);
      case "w4", "w4-check", "restore" -> keepStore(builder, job);
      default -> Nexmark.build(builder, job, marks);
    }
    return builder;
  }

  private static void mapStrings(StreamsBuilder builder, Job job, Marks marks) {
    builder.stream(job.input(), Consumed.with(BYTES, STRING))
        .peek((key, value) -> marks.count(1))
        .filter((key, value) -> !value.startsWith("click9", 9))
        .mapValues(value -> value.toUpperCase())
        .to(job.output(), Produced.with(BYTES, STRING));
  }

  private static void mapJson(StreamsBuilder builder, Job job, Marks marks) {
    Serde<JsonNode> json = JsonSerde.of(JsonNode.class);
    builder.stream(job.input(), Consumed.with(BYTES, json))
        .peek((key, value) -> marks.count(1))
        .filter((key, value) -> !value.get("type").asText().equals("click9"))
        .<JsonNode>mapValues(value -> ((ObjectNode) value).put("amount", value.get("amount").asDouble() * 2))
        .to(job.output(), Produced.with(BYTES, json));
  }

  /** Counts after the explicit repartition topic, so that the last word counted is the last one written there. */
  private static void countWords(StreamsBuilder builder, Job job, Marks marks) {
    builder.stream(job.input(), Consumed.with(BYTES, STRING))
        .peek((key, value) -> marks.begin())
        .flatMapValues(value -> Arrays.asList(value.split(" ")))
        .selectKey((key, word) -> word)
        .repartition(Repartitioned.with(STRING, STRING).withName("words"))
        .peek((key, value) -> marks.count(1))
        .groupByKey(Grouped.with(STRING, STRING))
        .count(Materialized.as("counts"))
        .toStream()
        .to(job.output(), Produced.with(STRING, LONG));
  }

  private static void countKeys(StreamsBuilder builder, Job job, Marks marks) {
    builder.stream(job.input(), Consumed.with(BYTES, BYTES))
        .peek((key, value) -> marks.count(1))
        .groupByKey(Grouped.with(BYTES, BYTES))
        .count(Materialized.as("counts"))
        .toStream()
        .to(job.output(), Produced.with(BYTES, LONG));
  }

  private static void keepStore(StreamsBuilder builder, Job job) {
    builder.addStateStore(
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("store"), BYTES, BYTES)
            .withLoggingEnabled(Map.of()));
    builder.stream(job.input(), Consumed.with(BYTES, BYTES)).process(() -> new Idle(), "store");
  }

  /** Ties the store to a source, as a restored store needs a task. */
  private static final class Idle implements Processor<byte[], byte[], Void, Void> {
    @Override
    public void process(Record<byte[], byte[]> record) {}
  }
}
