import java.time.Duration;
import java.util.Arrays;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The program of test_versions_takeover.py on Kafka Streams, run as Lines is. Arguments: its five topics in their order,
 * then the configuration as key=value.
 */
public final class Waits {
    private static final Serde<String> TEXT = Serdes.String();

    private Waits() { }

    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> events = builder.stream(args[0], Consumed.with(TEXT, TEXT));
        KTable<String, String> rows = builder.table(args[1], Consumed.with(TEXT, TEXT),
            Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore("versions", Duration.ofHours(1)))
                .withKeySerde(TEXT).withValueSerde(TEXT));
        events.join(rows, (event, row) -> event + "/" + row,
                Joined.with(TEXT, TEXT, TEXT, "seen", Duration.ofMinutes(1)))
            .to(args[2], Produced.with(TEXT, TEXT));
        builder.stream(args[3], Consumed.with(TEXT, TEXT))
            .groupByKey()
            .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofSeconds(70)))
            .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("visits").withKeySerde(TEXT))
            .suppress(Suppressed.untilTimeLimit(Duration.ofSeconds(100), BufferConfig.unbounded()).withName("calm"))
            .toStream((session, count) -> session.key() + "@" + session.window().start() + "-" + session.window().end())
            .to(args[4], Produced.with(TEXT, Serdes.Long()));
        Lines.run(builder, Arrays.asList(args).subList(5, args.length));
    }
}
