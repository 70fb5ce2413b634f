import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStoreWithHeaders;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

/**
 * A program whose stores keep headers, run as Lines is: it keeps rows, counts questions by window, and answers a question
 * with the row of its key, its time and its headers. Arguments: the topics of rows, questions and answers, then the
 * configuration as key=value.
 */
public final class Headed {
    private static final Serde<String> TEXT = Serdes.String();

    private Headed() { }

    public static void main(String[] args) throws Exception {
        List<String> settings = Arrays.asList(args).subList(3, args.length);
        StreamsBuilder builder = Lines.builder(settings);
        builder.addStateStore(Stores.timestampedKeyValueStoreWithHeadersBuilder(
            Stores.persistentTimestampedKeyValueStoreWithHeaders("rows"), TEXT, TEXT));
        builder.stream(args[0], Consumed.with(TEXT, TEXT)).process(Keep::new, Named.as("keep"), "rows");
        var questions = builder.stream(args[1], Consumed.with(TEXT, TEXT));
        questions.groupByKey(Grouped.with(TEXT, TEXT))
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofHours(1)))
            .count(Materialized.as("counts"));
        questions.process(Answer::new, Named.as("answer"), "rows").to(args[2], Produced.with(TEXT, TEXT));
        Lines.run(builder, settings);
    }

    private static final class Keep implements Processor<String, String, Void, Void> {
        private TimestampedKeyValueStoreWithHeaders<String, String> rows;

        @Override
        public void init(ProcessorContext<Void, Void> context) {
            rows = context.getStateStore("rows");
        }

        @Override
        public void process(Record<String, String> row) {
            rows.put(row.key(), row.value() == null ? null
                : ValueTimestampHeaders.make(row.value(), row.timestamp(), row.headers()));
        }
    }

    private static final class Answer implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;
        private TimestampedKeyValueStoreWithHeaders<String, String> rows;

        @Override
        public void init(ProcessorContext<String, String> context) {
            this.context = context;
            rows = context.getStateStore("rows");
        }

        @Override
        public void process(Record<String, String> question) {
            ValueTimestampHeaders<String> row = rows.get(question.key());
            StringBuilder text = new StringBuilder("none");
            if (row != null) {
                text = new StringBuilder(row.value() + "@" + row.timestamp());
                for (Header header : row.headers()) {
                    text.append(" ").append(header.key()).append("=")
                        .append(header.value() == null ? "null" : new String(header.value(), StandardCharsets.UTF_8));
                }
            }
            context.forward(question.withValue(question.value() + ": " + text));
        }
    }
}
