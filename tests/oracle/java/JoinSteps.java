import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.kstream.ValueJoinerWithStreamAndMappedKey;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * {"op": "join" | "left_join" | "outer_join", "of", "with", "fn": joiner, "args": 2, or 3 with the key}.
 *
 * Stream with stream: "windows": {"size" | "before", "after"; "grace"}, "stream_joined": {"key", "value", "other_value",
 * "name", "store_name", "logging", "engine", and "this", "other": suppliers as in Stores}. Stream with table: "joined": {"key", "value", "other_value", "name", "grace"}.
 * Stream with global table: "selector". Table with table: "name", "materialized"; with "extractor" it is a foreign-key
 * join ("extractor_args": 2 for an extractor of key and value, "table_joined": name).
 */
@SuppressWarnings({"unchecked", "rawtypes"})
final class JoinSteps {
    private JoinSteps() { }

    private static boolean withKey(JsonNode step) {
        return step.path("args").asInt(2) == 3;
    }

    static Object stream(JsonNode step, KStream<Object, Object> left, Object right) {
        if (right instanceof KTable<?, ?> table) {
            return withTable(step, left, (KTable<Object, Object>) table);
        }
        if (right instanceof GlobalKTable<?, ?> table) {
            return withGlobalTable(step, left, (GlobalKTable<Object, Object>) table);
        }
        return withStream(step, left, (KStream<Object, Object>) right);
    }

    private static JoinWindows windows(JsonNode options) {
        long first = options.hasNonNull("size") ? options.get("size").asLong() : 0;
        JoinWindows windows = options.hasNonNull("grace")
            ? JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(first), WindowSteps.ms(options, "grace"))
            : JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(first));
        if (options.hasNonNull("before")) {
            windows = windows.before(WindowSteps.ms(options, "before"));
        }
        return options.hasNonNull("after") ? windows.after(WindowSteps.ms(options, "after")) : windows;
    }

    private static StreamJoined<Object, Object, Object> streamJoined(JsonNode options) {
        StreamJoined<Object, Object, Object> joined = StreamJoined.with(Options.serde(options, "key"),
            Options.serde(options, "value"), Options.serde(options, "other_value"));
        if (options.hasNonNull("name")) {
            joined = joined.withName(options.get("name").asText());
        }
        if (options.hasNonNull("store_name")) {
            joined = joined.withStoreName(options.get("store_name").asText());
        }
        if (options.hasNonNull("engine")) {
            joined = joined.withDslStoreSuppliers(options.get("engine").asText().equals("memory")
                ? BuiltInDslStoreSuppliers.IN_MEMORY : BuiltInDslStoreSuppliers.ROCKS_DB);
        }
        if (options.hasNonNull("this")) {
            joined = joined.withThisStoreSupplier(Stores.windows(options.get("this"), Options.text(options.get("this"), "name")));
        }
        if (options.hasNonNull("other")) {
            joined = joined.withOtherStoreSupplier(Stores.windows(options.get("other"), Options.text(options.get("other"), "name")));
        }
        return options.path("logging").asBoolean(true) ? joined : joined.withLoggingDisabled();
    }

    private static KStream<Object, Object> withStream(JsonNode step, KStream<Object, Object> left,
            KStream<Object, Object> right) {
        JoinWindows windows = windows(step.get("windows"));
        StreamJoined<Object, Object, Object> joined = streamJoined(step.path("stream_joined"));
        String fn = step.get("fn").asText();
        if (withKey(step)) {
            ValueJoinerWithKey<Object, Object, Object, Object> joiner = Functions.joinerWithKey(fn);
            return switch (step.get("op").asText()) {
                case "join" -> left.join(right, joiner, windows, joined);
                case "left_join" -> left.leftJoin(right, joiner, windows, joined);
                default -> left.outerJoin(right, joiner, windows, joined);
            };
        }
        ValueJoiner<Object, Object, Object> joiner = Functions.joiner(fn);
        return switch (step.get("op").asText()) {
            case "join" -> left.join(right, joiner, windows, joined);
            case "left_join" -> left.leftJoin(right, joiner, windows, joined);
            default -> left.outerJoin(right, joiner, windows, joined);
        };
    }

    private static Joined<Object, Object, Object> joined(JsonNode options) {
        Joined<Object, Object, Object> joined = Joined.with(Options.serde(options, "key"), Options.serde(options, "value"),
            Options.serde(options, "other_value"));
        if (options.hasNonNull("name")) {
            joined = joined.withName(options.get("name").asText());
        }
        return options.hasNonNull("grace") ? joined.withGracePeriod(WindowSteps.ms(options, "grace")) : joined;
    }

    private static KStream<Object, Object> withTable(JsonNode step, KStream<Object, Object> left,
            KTable<Object, Object> right) {
        Joined<Object, Object, Object> joined = joined(step.path("joined"));
        String fn = step.get("fn").asText();
        boolean inner = step.get("op").asText().equals("join");
        if (withKey(step)) {
            ValueJoinerWithKey<Object, Object, Object, Object> joiner = Functions.joinerWithKey(fn);
            return inner ? left.join(right, joiner, joined) : left.leftJoin(right, joiner, joined);
        }
        ValueJoiner<Object, Object, Object> joiner = Functions.joiner(fn);
        return inner ? left.join(right, joiner, joined) : left.leftJoin(right, joiner, joined);
    }

    private static KStream<Object, Object> withGlobalTable(JsonNode step, KStream<Object, Object> left,
            GlobalKTable<Object, Object> right) {
        KeyValueMapper<Object, Object, Object> selector = Functions.keySelector(step.get("selector").asText());
        String fn = step.get("fn").asText();
        Named named = Options.named(step);
        boolean inner = step.get("op").asText().equals("join");
        if (step.path("args").asInt(2) == 4) {
            ValueJoinerWithStreamAndMappedKey<Object, Object, Object, Object, Object> joiner = Functions.joinerWithKeys(fn);
            if (inner) {
                return named == null ? left.join(right, selector, joiner) : left.join(right, selector, joiner, named);
            }
            return named == null ? left.leftJoin(right, selector, joiner) : left.leftJoin(right, selector, joiner, named);
        }
        if (withKey(step)) {
            ValueJoinerWithKey<Object, Object, Object, Object> joiner = Functions.joinerWithKey(fn);
            if (inner) {
                return named == null ? left.join(right, selector, joiner) : left.join(right, selector, joiner, named);
            }
            return named == null ? left.leftJoin(right, selector, joiner) : left.leftJoin(right, selector, joiner, named);
        }
        ValueJoiner<Object, Object, Object> joiner = Functions.joiner(fn);
        if (inner) {
            return named == null ? left.join(right, selector, joiner) : left.join(right, selector, joiner, named);
        }
        return named == null ? left.leftJoin(right, selector, joiner) : left.leftJoin(right, selector, joiner, named);
    }

    static KTable<Object, Object> tables(JsonNode step, KTable<Object, Object> left, KTable<Object, Object> right) {
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized = Options.materialized(step);
        if (step.hasNonNull("extractor")) {
            return foreignKey(step, left, right, materialized);
        }
        ValueJoiner<Object, Object, Object> joiner = Functions.joiner(step.get("fn").asText());
        Named named = Options.named(step);
        switch (step.get("op").asText()) {
            case "join":
                if (materialized == null) {
                    return named == null ? left.join(right, joiner) : left.join(right, joiner, named);
                }
                return named == null ? left.join(right, joiner, materialized)
                    : left.join(right, joiner, named, materialized);
            case "left_join":
                if (materialized == null) {
                    return named == null ? left.leftJoin(right, joiner) : left.leftJoin(right, joiner, named);
                }
                return named == null ? left.leftJoin(right, joiner, materialized)
                    : left.leftJoin(right, joiner, named, materialized);
            default:
                if (materialized == null) {
                    return named == null ? left.outerJoin(right, joiner) : left.outerJoin(right, joiner, named);
                }
                return named == null ? left.outerJoin(right, joiner, materialized)
                    : left.outerJoin(right, joiner, named, materialized);
        }
    }

    private static StreamPartitioner<Object, Void> partitioner(JsonNode step, String field) {
        return step.hasNonNull(field) ? (StreamPartitioner) Functions.partitioner(step.get(field).asText()) : null;
    }

    private static KTable<Object, Object> foreignKey(JsonNode step, KTable<Object, Object> left,
            KTable<Object, Object> right, Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized) {
        String extractor = step.get("extractor").asText();
        ValueJoiner<Object, Object, Object> joiner = Functions.joiner(step.get("fn").asText());
        boolean inner = step.get("op").asText().equals("join");
        TableJoined<Object, Object> joined = TableJoined.with(partitioner(step, "partitioner"),
            partitioner(step, "other_partitioner"));
        if (step.hasNonNull("table_joined")) {
            joined = joined.withName(step.get("table_joined").asText());
        }
        if (step.path("extractor_args").asInt(1) == 2) {
            KeyValueMapper<Object, Object, Object> selector = Functions.keySelector(extractor);
            BiFunction<Object, Object, Object> both = selector::apply;
            if (materialized == null) {
                return inner ? left.join(right, both, joiner, joined) : left.leftJoin(right, both, joiner, joined);
            }
            return inner ? left.join(right, both, joiner, joined, materialized)
                : left.leftJoin(right, both, joiner, joined, materialized);
        }
        Function<Object, Object> ofValue = value -> Functions.valueMapper(extractor).apply(value);
        if (materialized == null) {
            return inner ? left.join(right, ofValue, joiner, joined) : left.leftJoin(right, ofValue, joiner, joined);
        }
        return inner ? left.join(right, ofValue, joiner, joined, materialized)
            : left.leftJoin(right, ofValue, joiner, joined, materialized);
    }
}
