import java.time.Duration;
import java.util.Arrays;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The program joins of killable.py on Kafka Streams, run as Lines is. Arguments: its six topics in their order, then the
 * configuration as key=value.
 */
public final class Joins {
    private static final Serde<String> TEXT = Serdes.String();

    private Joins() { }

    private static String shown(String left, String right) {
        return (left == null ? "-" : left) + "/" + (right == null ? "-" : right);
    }

    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lefts = builder.stream(args[0], Consumed.with(TEXT, TEXT));
        KStream<String, String> rights = builder.stream(args[1], Consumed.with(TEXT, TEXT));
        lefts.outerJoin(rights, Joins::shown, JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(1)),
                StreamJoined.with(TEXT, TEXT, TEXT))
            .to(args[2], Produced.with(TEXT, TEXT));
        KTable<String, String> rows = builder.table(args[3], Consumed.with(TEXT, TEXT));
        KTable<String, String> names = builder.table(args[4], Consumed.with(TEXT, TEXT));
        rows.leftJoin(names, order -> order.split(":")[0], Joins::shown,
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("named").withKeySerde(TEXT)
                    .withValueSerde(TEXT))
            .toStream().to(args[5], Produced.with(TEXT, TEXT));
        Lines.run(builder, Arrays.asList(args).subList(6, args.length));
    }
}
