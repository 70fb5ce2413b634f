import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The program of lines.py on Kafka Streams: runs until a line comes on standard input, which says "leave" or "remain".
 *
 * Prints its topology, then CLOSED when everything is committed. Arguments: the topic of the lines, the topics of
 * lengths, parities and counts, then the configuration as key=value.
 */
public final class Lines {
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<Long> LONG = Serdes.Long();

    private Lines() { }

    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        program(builder, args[0], args[1], args[2], args[3]);
        run(builder, Arrays.asList(args).subList(4, args.length));
    }

    /** The configuration given as key=value. */
    static Properties properties(List<String> settings) {
        Properties properties = new Properties();
        for (String setting : settings) {
            String[] parts = setting.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        return properties;
    }

    /** A builder of the DSL for a configuration given as key=value: stores are made in the format that it says. */
    static StreamsBuilder builder(List<String> settings) {
        return new StreamsBuilder(new TopologyConfig(new StreamsConfig(properties(settings))));
    }

    /** Runs a program with the configuration given as key=value. */
    static void run(StreamsBuilder builder, List<String> settings) throws Exception {
        Properties properties = properties(settings);
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        System.out.print(builder.build().describe());
        System.out.println("STARTED");
        streams.start();
        String order = new String(System.in.readAllBytes()).trim();
        streams.close(CloseOptions.timeout(Duration.ofSeconds(30)).withGroupMembershipOperation(
            order.equals("leave") ? GroupMembershipOperation.LEAVE_GROUP : GroupMembershipOperation.REMAIN_IN_GROUP));
        System.out.println("CLOSED");
    }

    private static void program(StreamsBuilder builder, String source, String lengths, String parities, String counts) {
        KStream<String, String> lines = builder.stream(source, Consumed.with(TEXT, TEXT));
        KTable<String, Long> total = lines.groupByKey().aggregate(
            () -> 0L, (key, line, sum) -> sum + line.length(),
            Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("lengths").withKeySerde(TEXT).withValueSerde(LONG));
        total.toStream().to(lengths, Produced.with(TEXT, LONG));
        total.groupBy(
                (key, length) -> KeyValue.pair(length % 2 == 0 ? "even" : "odd", length),
                Grouped.with("parities", TEXT, LONG))
            .reduce(Long::sum, (sum, gone) -> sum - gone,
                Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("parities").withKeySerde(TEXT).withValueSerde(LONG))
            .toStream().to(parities, Produced.with(TEXT, LONG));
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", TEXT, TEXT))
            .count(Materialized.as("counts"))
            .toStream().to(counts, Produced.with(TEXT, LONG));
    }
}
