import java.util.Arrays;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * The program count_while_alive of killable.py on Kafka Streams, which knows no time to live, run as Lines is. Arguments:
 * the topic to read, the topic to write, then the configuration as key=value.
 */
public final class Counts {
    private static final Serde<byte[]> BYTES = Serdes.ByteArray();

    private Counts() { }

    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[0], Consumed.with(BYTES, BYTES))
            .groupByKey()
            .count(Materialized.as("counts"))
            .toStream()
            .to(args[1], Produced.with(BYTES, Serdes.Long()));
        Lines.run(builder, Arrays.asList(args).subList(2, args.length));
    }
}
