import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Predicate;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.kstream.ValueJoinerWithStreamAndMappedKey;
import org.apache.kafka.streams.kstream.ValueMapper;
import org.apache.kafka.streams.kstream.ValueMapperWithKey;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.TopicNameExtractor;

/** The user functions that programs name. functions.py has the same table; the two must stay equal. */
final class Functions {
    private Functions() { }

    /** Longest text a function makes, so that values fed back into themselves stay small. */
    static final int TEXT_LIMIT = 60;

    /** The values that functions fail for; they come in records alone. */
    private static final String BOOM = "boom";
    private static final long UNLUCKY = 1_000_013;

    static String text(Object value) {
        if (BOOM.equals(value)) {
            throw new IllegalStateException(BOOM);
        }
        return value == null ? "null" : value.toString();
    }

    static long num(Object value) {
        if (value == null) {
            return 0;
        }
        if (!(value instanceof Number number)) {
            return text(value).getBytes(StandardCharsets.UTF_8).length;
        }
        if (number.longValue() == UNLUCKY) {
            throw new IllegalStateException("unlucky");
        }
        return number.longValue();
    }

    static String clip(String text) {
        return text.length() <= TEXT_LIMIT ? text : text.substring(text.length() - TEXT_LIMIT);
    }

    private static boolean even(Object value) {
        return Math.floorMod(num(value), 2L) == 0;
    }

    static List<Object> words(Object value) {
        List<Object> words = new ArrayList<>();
        if (value != null) {
            for (String word : text(value).split(" ")) {
                if (!word.isEmpty()) {
                    words.add(word);
                }
            }
        }
        return words;
    }

    private static final Map<String, Predicate<Object, Object>> PREDICATES = Map.of(
        "all", (k, v) -> true,
        "none", (k, v) -> false,
        "value_even", (k, v) -> even(v),
        "key_even", (k, v) -> even(k),
        "value_present", (k, v) -> v != null,
        "key_present", (k, v) -> k != null,
        "value_gt_3", (k, v) -> num(v) > 3,
        "fail_on_boom", (k, v) -> !text(v).equals(BOOM));

    private static final Map<String, ValueMapper<Object, Object>> VALUE_MAPPERS = Map.of(
        "identity", v -> v,
        "text", v -> v == null ? null : text(v),
        "length", v -> num(v),
        "null_if_odd", v -> even(v) ? v : null,
        "add_one", v -> num(v) + 1,
        "exclaim", v -> clip(text(v) + "!"));

    private static final Map<String, ValueMapperWithKey<Object, Object, Object>> VALUE_MAPPERS_WITH_KEY = Map.of(
        "key_and_value", (k, v) -> clip(text(k) + ":" + text(v)),
        "sum_key_value", (k, v) -> num(k) + num(v),
        "null_if_key_even", (k, v) -> even(k) ? null : v);

    private static final Map<String, KeyValueMapper<Object, Object, Object>> PAIR_MAPPERS = Map.of(
        "swap_texts", (k, v) -> KeyValue.pair(clip(text(v)), clip(text(k))),
        "key_length", (k, v) -> KeyValue.pair(num(k), v),
        "value_as_key", (k, v) -> KeyValue.pair(v == null ? null : text(v), v),
        "null_key_if_odd", (k, v) -> KeyValue.pair(even(v) ? k : null, v),
        "first_letter", (k, v) -> KeyValue.pair(firstLetter(v), v),
        "numbers", (k, v) -> KeyValue.pair(num(k), num(v)));

    private static String firstLetter(Object value) {
        String text = text(value);
        return text.isEmpty() ? "" : text.substring(0, 1);
    }

    private static final Map<String, KeyValueMapper<Object, Object, Object>> KEY_SELECTORS = Map.of(
        "text_of_value", (k, v) -> v == null ? null : text(v),
        "first_letter", (k, v) -> firstLetter(v),
        "value_parity", (k, v) -> Math.floorMod(num(v), 2L),
        "same_key", (k, v) -> k,
        "null_key_if_odd", (k, v) -> even(v) ? k : null);

    private static final Map<String, KeyValueMapper<Object, Object, Object>> FLAT_MAPPERS = Map.of(
        "twice", (k, v) -> List.of(KeyValue.pair(k, v), KeyValue.pair(k, v)),
        "nothing", (k, v) -> List.of(),
        "key_words", (k, v) -> {
            List<KeyValue<Object, Object>> pairs = new ArrayList<>();
            for (Object word : words(v)) {
                pairs.add(KeyValue.pair(word, v));
            }
            return pairs;
        });

    private static final Map<String, ValueMapper<Object, Object>> FLAT_VALUE_MAPPERS = Map.of(
        "words", v -> words(v),
        "repeat", v -> {
            List<Object> values = new ArrayList<>();
            values.add(v);
            values.add(v);
            return values;
        });

    private static final Map<String, ValueMapperWithKey<Object, Object, Object>> FLAT_VALUE_MAPPERS_WITH_KEY = Map.of(
        "key_then_value", (k, v) -> List.of(text(k), clip(text(v))));

    private static final Map<String, Reducer<Object>> REDUCERS = Map.of(
        "concat", (a, b) -> clip(text(a) + "," + text(b)),
        "sum", (a, b) -> num(a) + num(b),
        "minus", (a, b) -> num(a) - num(b),
        "minus_or_none", (a, b) -> noneIfZero(num(a) - num(b)),
        "unconcat", (a, b) -> clip(text(a) + "-" + text(b)),
        "latest", (a, b) -> b,
        "null_if_odd_sum", (a, b) -> Math.floorMod(num(a) + num(b), 2L) == 0 ? num(a) + num(b) : null);

    private static final Map<String, Initializer<Object>> INITIALIZERS = Map.of(
        "zero", () -> 0L,
        "empty", () -> "",
        "null", () -> null);

    private static final Map<String, Aggregator<Object, Object, Object>> AGGREGATORS = Map.of(
        "count", (k, v, a) -> num(a) + 1,
        "uncount", (k, v, a) -> num(a) - 1,
        "sum", (k, v, a) -> num(a) + num(v),
        "unsum", (k, v, a) -> num(a) - num(v),
        "uncount_or_none", (k, v, a) -> noneIfZero(num(a) - 1),
        "unsum_or_none", (k, v, a) -> noneIfZero(num(a) - num(v)),
        "join", (k, v, a) -> clip(text(a) + "+" + text(k) + "=" + text(v)),
        "unjoin", (k, v, a) -> clip(text(a) + "-" + text(k) + "=" + text(v)),
        "null_if_odd", (k, v, a) -> even(v) ? num(a) + num(v) : null);

    private static final Map<String, Merger<Object, Object>> MERGERS = Map.of(
        "sum", (k, a, b) -> num(a) + num(b),
        "join", (k, a, b) -> clip(text(a) + "|" + text(b)),
        "null_if_odd_sum", (k, a, b) -> Math.floorMod(num(a) + num(b), 2L) == 0 ? num(a) + num(b) : null);

    private static final Map<String, ValueJoiner<Object, Object, Object>> JOINERS = Map.of(
        "both", (a, b) -> clip(text(a) + "/" + text(b)),
        "left", (a, b) -> a,
        "right", (a, b) -> b,
        "total", (a, b) -> num(a) + num(b),
        "null_if_odd_total", (a, b) -> Math.floorMod(num(a) + num(b), 2L) == 0 ? num(a) + num(b) : null);

    private static final Map<String, ValueJoinerWithKey<Object, Object, Object, Object>> JOINERS_WITH_KEY = Map.of(
        "all", (k, a, b) -> clip(text(k) + ":" + text(a) + "/" + text(b)),
        "total", (k, a, b) -> num(k) + num(a) + num(b));

    private static final Map<String, ValueJoinerWithStreamAndMappedKey<Object, Object, Object, Object, Object>> JOINERS_WITH_KEYS =
        Map.of("every", (k, r, a, b) -> clip(text(k) + ";" + text(r) + ":" + text(a) + "/" + text(b)));

    private static final Map<String, TimestampExtractor> EXTRACTORS = Map.of(
        "value_times_ten", (r, partitionTime) -> num(r.value()) * 10,
        "negative_if_odd", (r, partitionTime) -> even(r.value()) ? r.timestamp() : -1,
        "partition_time", (r, partitionTime) -> Math.max(partitionTime, 0));

    /** Has a name of its own, because descriptions print the object. */
    private record TopicOf(String name, TopicNameExtractor<Object, Object> extractor)
        implements TopicNameExtractor<Object, Object> {
        @Override
        public String extract(Object key, Object value, RecordContext context) {
            return extractor.extract(key, value, context);
        }

        @Override
        public String toString() {
            return name;
        }
    }

    private static final Map<String, TopicNameExtractor<Object, Object>> TOPIC_EXTRACTORS = Map.of(
        "by_value_parity", (k, v, c) -> even(v) ? "out-even" : "out-odd",
        "by_source_topic", (k, v, c) -> "out-of-" + c.topic());

    private static final Map<String, StreamPartitioner<Object, Object>> PARTITIONERS = Map.of(
        "first", (topic, k, v, n) -> Optional.of(Set.of(0)),
        "by_default", (topic, k, v, n) -> Optional.empty(),
        "even_headers", new EvenHeaders(),
        "by_value", (topic, k, v, n) -> Optional.of(Set.of((int) Math.floorMod(num(v), (long) n))));

    private static <T> T named(String kind, Map<String, T> table, String name) {
        T found = table.get(name);
        if (found == null) {
            throw new IllegalArgumentException("the oracle knows no " + kind + " named " + name);
        }
        return found;
    }

    static Predicate<Object, Object> predicate(String name) {
        return named("predicate", PREDICATES, name);
    }

    private static Object noneIfZero(long number) {
        return number == 0 ? null : number;
    }

    static ValueMapper<Object, Object> valueMapper(String name) {
        return named("value mapper", VALUE_MAPPERS, name);
    }

    static ValueMapperWithKey<Object, Object, Object> valueMapperWithKey(String name) {
        return named("value mapper with key", VALUE_MAPPERS_WITH_KEY, name);
    }

    static KeyValueMapper<Object, Object, Object> pairMapper(String name) {
        return named("pair mapper", PAIR_MAPPERS, name);
    }

    static KeyValueMapper<Object, Object, Object> keySelector(String name) {
        return named("key selector", KEY_SELECTORS, name);
    }

    static KeyValueMapper<Object, Object, Object> flatMapper(String name) {
        return named("flat mapper", FLAT_MAPPERS, name);
    }

    static ValueMapper<Object, Object> flatValueMapper(String name) {
        return named("flat value mapper", FLAT_VALUE_MAPPERS, name);
    }

    static ValueMapperWithKey<Object, Object, Object> flatValueMapperWithKey(String name) {
        return named("flat value mapper with key", FLAT_VALUE_MAPPERS_WITH_KEY, name);
    }

    static Reducer<Object> reducer(String name) {
        return named("reducer", REDUCERS, name);
    }

    static Initializer<Object> initializer(String name) {
        return named("initializer", INITIALIZERS, name);
    }

    static Aggregator<Object, Object, Object> aggregator(String name) {
        return named("aggregator", AGGREGATORS, name);
    }

    static Merger<Object, Object> merger(String name) {
        return named("session merger", MERGERS, name);
    }

    static ValueJoiner<Object, Object, Object> joiner(String name) {
        return named("joiner", JOINERS, name);
    }

    static ValueJoinerWithKey<Object, Object, Object, Object> joinerWithKey(String name) {
        return named("joiner with key", JOINERS_WITH_KEY, name);
    }

    static ValueJoinerWithStreamAndMappedKey<Object, Object, Object, Object, Object> joinerWithKeys(String name) {
        return named("joiner with both keys", JOINERS_WITH_KEYS, name);
    }

    static TimestampExtractor extractor(String name) {
        return named("timestamp extractor", EXTRACTORS, name);
    }

    static TopicNameExtractor<Object, Object> topicExtractor(String name) {
        return new TopicOf(name, named("topic extractor", TOPIC_EXTRACTORS, name));
    }

    /** Drops what has an odd number of headers. */
    private static final class EvenHeaders implements StreamPartitioner<Object, Object> {
        @Override
        @Deprecated
        public Optional<Set<Integer>> partitions(String topic, Object key, Object value, int count) {
            throw new IllegalStateException("called without headers");
        }

        @Override
        public Optional<Set<Integer>> partitions(String topic, Object key, Object value, Headers headers, int count) {
            return Optional.of(headers.toArray().length % 2 == 0 ? Set.of(0) : Set.of());
        }
    }

    static StreamPartitioner<Object, Object> partitioner(String name) {
        return named("partitioner", PARTITIONERS, name);
    }
}
