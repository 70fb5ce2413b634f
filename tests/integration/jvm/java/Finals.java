import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * The program window_finals of killable.py on Kafka Streams, run as Lines is. Arguments: the topic to read, the topic to
 * write, then the configuration as key=value.
 */
public final class Finals {
    private static final Serde<String> TEXT = Serdes.String();

    private Finals() { }

    public static void main(String[] args) throws Exception {
        List<String> settings = Arrays.asList(args).subList(2, args.length);
        StreamsBuilder builder = Lines.builder(settings);
        builder.stream(args[0], Consumed.with(TEXT, TEXT))
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(1)))
            .count(Materialized.as("counts"))
            .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("finals"))
            .toStream((windowed, count) -> windowed.key() + "@" + windowed.window().start())
            .to(args[1], Produced.with(TEXT, Serdes.Long()));
        Lines.run(builder, settings);
    }
}
