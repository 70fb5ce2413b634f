import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.Punctuator;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessingContext;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The processors that programs name: {"processor": name, "stores": [...], "interval": ms, "start": ms or none,
 * "children": [...]}.
 * processors.py has the same table; the two must stay equal.
 *
 * Those whose key never changes (VALUE_STEPS) also serve process_values.
 */
final class Processors {
    private Processors() { }

    /** A record's value, time and headers after a step that keeps the key; no Stepped at all forwards nothing. */
    private record Stepped(Object value, long timestamp, Headers headers) { }

    /** What a step that keeps the key may see. */
    private interface Step {
        Stepped apply(ProcessingContext context, JsonNode step, Object key, Object value, long timestamp, Headers headers);
    }

    private static Step valueStep(String name) {
        return switch (name) {
            case "pass" -> (context, step, key, value, timestamp, headers) -> new Stepped(value, timestamp, headers);
            case "late" -> (context, step, key, value, timestamp, headers) ->
                new Stepped(value, Math.max(0, timestamp - 3), headers);
            case "headers" -> (context, step, key, value, timestamp, headers) -> {
                // A copy: the siblings of this node are given the same headers.
                Headers more = new RecordHeaders(headers);
                more.add("seen", Functions.text(key).getBytes(StandardCharsets.UTF_8));
                return new Stepped(value, timestamp, more);
            };
            case "metadata" -> Processors::metadata;
            case "count" -> Processors::count;
            case "latest" -> Processors::latest;
            case "store_api" -> Processors::storeApi;
            case "read" -> Processors::read;
            case "headed_api" -> Processors::headedApi;
            case "window_api", "headed_window_api" -> Processors::windowApi;
            case "session_api", "headed_session_api" -> Processors::sessionApi;
            case "versioned_api" -> Processors::versionedApi;
            case "fail_on_boom" -> (context, step, key, value, timestamp, headers) -> {
                Functions.predicate("fail_on_boom").test(key, value);
                return new Stepped(value, timestamp, headers);
            };
            default -> null;
        };
    }

    private static Stepped metadata(ProcessingContext context, JsonNode step, Object key, Object value, long timestamp,
                                    Headers headers) {
        // Kafka Streams gives punctuations a record's place with a null topic, streamsapp gives them none.
        String where = context.recordMetadata()
            .filter(at -> at.topic() != null)
            .map(at -> at.topic() + "-" + at.partition() + "@" + at.offset())
            .orElse("nowhere");
        List<String> names = new ArrayList<>();
        headers.forEach(header -> names.add(header.key()));
        return new Stepped(Functions.clip(where + " stream " + context.currentStreamTimeMs() + " now "
            + context.currentSystemTimeMs() + " task " + context.taskId() + " " + names), timestamp, headers);
    }

    private static Stepped count(ProcessingContext context, JsonNode step, Object key, Object value, long timestamp,
                                 Headers headers) {
        if (key == null) {
            return null;
        }
        KeyValueStore<Object, Object> store = context.getStateStore(step.get("stores").get(0).asText());
        Object counted = Functions.num(store.get(key)) + 1;
        store.put(key, counted);
        return new Stepped(counted, timestamp, headers);
    }

    private static Stepped latest(ProcessingContext context, JsonNode step, Object key, Object value, long timestamp,
                                  Headers headers) {
        if (key == null) {
            return null;
        }
        TimestampedKeyValueStore<Object, Object> store = context.getStateStore(step.get("stores").get(0).asText());
        ValueAndTimestamp<Object> previous = store.get(key);
        store.put(key, ValueAndTimestamp.make(value, timestamp));
        return new Stepped(previous == null ? "none" : Functions.text(previous.value()) + "@" + previous.timestamp(),
            timestamp, headers);
    }

    private static Stepped storeApi(ProcessingContext context, JsonNode step, Object key, Object value, long timestamp,
                                    Headers headers) {
        if (key == null) {
            return null;
        }
        KeyValueStore<Object, Object> store = context.getStateStore(step.get("stores").get(0).asText());
        List<String> seen = new ArrayList<>();
        seen.add(Functions.text(store.putIfAbsent(key, value)));
        keys(store.range(key, null), seen, ">");
        keys(store.range(null, key), seen, "<");
        keys(store.reverseAll(), seen, "r");
        keys(store.reverseRange(null, key), seen, "q");
        if (Functions.num(value) % 3 == 0) {
            seen.add("d" + Functions.text(store.delete(key)));
        }
        store.putAll(List.of(KeyValue.pair(key, value)));
        keys(store.all(), seen, "a");
        return new Stepped(Functions.clip(String.join(" ", seen)), timestamp, headers);
    }

    /** Puts values with headers of their own, those of the record or none, and reads them (KIP-1271). */
    private static Stepped headedApi(ProcessingContext context, JsonNode step, Object key, Object value, long timestamp,
                                     Headers headers) {
        if (key == null) {
            return null;
        }
        KeyValueStore<Object, Object> store = context.getStateStore(step.get("stores").get(0).asText());
        List<String> seen = new ArrayList<>();
        seen.add(shown(store.get(key)));
        Headers kept = Functions.num(value) % 3 == 0 ? new RecordHeaders() : headers;
        seen.add(shown(store.putIfAbsent(key, ValueTimestampHeaders.make(value, timestamp, kept))));
        store.put(key, ValueTimestampHeaders.make(value, timestamp, kept));
        if (Functions.num(value) % 5 == 0) {
            seen.add("d" + shown(store.delete(key)));
        }
        windowed(store.range(null, key), seen, "<");
        windowed(store.reverseRange(key, null), seen, "q");
        windowed(store.all(), seen, "a");
        return new Stepped(String.join(" ", seen), timestamp, headers);
    }

    /** A value, with its time and its headers if its store keeps them. */
    private static String shown(Object found) {
        if (found instanceof ValueTimestampHeaders<?> headed) {
            return Functions.text(headed.value()) + "@" + headed.timestamp() + named(headed.headers());
        }
        return found instanceof AggregationWithHeaders<?> headed
            ? Functions.text(headed.aggregation()) + named(headed.headers()) : Functions.text(found);
    }

    private static String named(Headers headers) {
        List<String> names = new ArrayList<>();
        headers.forEach(header -> names.add(header.key()
            + (header.value() == null ? "" : "=" + new String(header.value(), StandardCharsets.UTF_8))));
        return names.toString();
    }

    private static boolean isHeaded(JsonNode step) {
        return step.get("processor").asText().startsWith("headed");
    }

    private static void keys(KeyValueIterator<Object, Object> entries, List<String> into, String mark) {
        try (entries) {
            while (entries.hasNext()) {
                into.add(mark + Functions.text(entries.next().key));
            }
        }
    }

    private static Stepped windowApi(ProcessingContext context, JsonNode step, Object key, Object value, long timestamp,
                                     Headers headers) {
        if (key == null) {
            return null;
        }
        WindowStore<Object, Object> store = context.getStateStore(step.get("stores").get(0).asText());
        List<String> seen = new ArrayList<>();
        Object kept = Functions.num(value) % 5 == 0 ? null : value;
        store.put(key, isHeaded(step) ? ValueTimestampHeaders.make(kept, timestamp, headers) : kept, timestamp);
        Instant from = Instant.ofEpochMilli(Math.max(0, timestamp - 20));
        Instant to = Instant.ofEpochMilli(timestamp + 20);
        seen.add(shown(store.fetch(key, timestamp)));
        windowed(store.fetch(key, from, to), seen, "f");
        windowed(store.backwardFetch(key, from, to), seen, "b");
        windowed(store.fetch(null, key, from, to), seen, "<");
        windowed(store.fetch(key, null, from, to), seen, ">");
        windowed(store.backwardFetch(null, key, from, to), seen, "q");
        windowed(store.fetchAll(from, to), seen, "t");
        windowed(store.backwardFetchAll(from, to), seen, "u");
        windowed(store.all(), seen, "a");
        windowed(store.backwardAll(), seen, "r");
        return new Stepped(String.join(" ", seen), timestamp, headers);
    }

    private static Stepped sessionApi(ProcessingContext context, JsonNode step, Object key, Object value, long timestamp,
                                      Headers headers) {
        if (key == null) {
            return null;
        }
        SessionStore<Object, Object> store = context.getStateStore(step.get("stores").get(0).asText());
        List<String> seen = new ArrayList<>();
        long start = Math.max(0, timestamp - Math.floorMod(Functions.num(value), 7L));
        Windowed<Object> session = new Windowed<>(key, new SessionWindow(start, timestamp));
        if (Functions.num(value) % 5 == 0) {
            store.remove(session);
        } else {
            store.put(session, isHeaded(step) ? AggregationWithHeaders.make(value, headers) : value);
        }
        long from = Math.max(0, timestamp - 10);
        seen.add(shown(store.fetchSession(key, start, timestamp)));
        windowed(store.fetch(key), seen, "f");
        windowed(store.backwardFetch(key), seen, "b");
        windowed(store.findSessions(key, from, timestamp), seen, "s");
        windowed(store.backwardFindSessions(key, from, timestamp), seen, "z");
        windowed(store.findSessions(null, key, from, timestamp), seen, "<");
        windowed(store.findSessions(key, null, from, timestamp), seen, ">");
        windowed(store.backwardFindSessions(null, key, from, timestamp), seen, "q");
        windowed(store.fetch(null, null), seen, "a");
        windowed(store.backwardFetch(null, null), seen, "r");
        return new Stepped(String.join(" ", seen), timestamp, headers);
    }

    private static void windowed(KeyValueIterator<?, Object> entries, List<String> into, String mark) {
        try (entries) {
            while (entries.hasNext()) {
                KeyValue<?, Object> next = entries.next();
                String key = next.key instanceof Windowed<?> window
                    ? Functions.text(window.key()) + "@" + window.window().start() + "-" + window.window().end()
                    : next.key.toString();
                into.add(mark + key + "=" + shown(next.value));
            }
        }
    }

    private static Stepped versionedApi(ProcessingContext context, JsonNode step, Object key, Object value, long timestamp,
                                        Headers headers) {
        if (key == null) {
            return null;
        }
        VersionedKeyValueStore<Object, Object> store = context.getStateStore(step.get("stores").get(0).asText());
        List<String> seen = new ArrayList<>();
        seen.add(value != null && Functions.num(value) % 3 == 0 ? "d" + version(store.delete(key, timestamp))
            : "p" + store.put(key, value, timestamp));
        seen.add(version(store.get(key)));
        for (long ago : new long[] {-1, 0, 3, 20, 200}) {
            seen.add(version(store.get(key, timestamp - ago)));
        }
        return new Stepped(String.join(" ", seen), timestamp, headers);
    }

    private static String version(VersionedRecord<Object> record) {
        return record == null ? "none" : Functions.text(record.value()) + "@" + record.timestamp();
    }

    private static Stepped read(ProcessingContext context, JsonNode step, Object key, Object value, long timestamp,
                                Headers headers) {
        String name = step.hasNonNull("global") ? step.get("global").asText() : step.get("stores").get(0).asText();
        Object store = context.getStateStore(name);
        Object found = key == null ? null : ((KeyValueStore<?, ?>) store).get(cast(key));
        Object plain = found instanceof ValueAndTimestamp<?> stamped ? stamped.value()
            : found instanceof ValueTimestampHeaders<?> headed ? headed.value() : found;
        return new Stepped(Functions.text(plain), timestamp, headers);
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object value) {
        return (T) value;
    }

    /** {"brings": store}: the supplier brings the store that its processor uses. */
    static ProcessorSupplier<Object, Object, Object, Object> supplier(JsonNode step) {
        ProcessorSupplier<Object, Object, Object, Object> made = withoutStores(step);
        if (!step.has("brings")) {
            return made;
        }
        StoreBuilder<?> store = Stores.builder(step.get("brings"));
        return new ProcessorSupplier<>() {
            @Override
            public Processor<Object, Object, Object, Object> get() {
                return made.get();
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return Set.of(store);
            }
        };
    }

    private static ProcessorSupplier<Object, Object, Object, Object> withoutStores(JsonNode step) {
        String name = step.get("processor").asText();
        Step valueStep = valueStep(name);
        if (valueStep != null) {
            return () -> new Stepping(step, valueStep);
        }
        return switch (name) {
            case "dump_stream_time" -> () -> new Dumping(step, PunctuationType.STREAM_TIME);
            case "dump_wall_clock" -> () -> new Dumping(step, PunctuationType.WALL_CLOCK_TIME);
            case "tick_stream_time" -> () -> new Ticking(step, PunctuationType.STREAM_TIME);
            case "tick_wall_clock" -> () -> new Ticking(step, PunctuationType.WALL_CLOCK_TIME);
            case "scheduling" -> () -> new Scheduling(step);
            case "swap" -> () -> simple((context, record) -> context.forward(new Record<>(
                Functions.text(record.value()), Functions.text(record.key()), record.timestamp(), record.headers())));
            case "twice" -> () -> simple((context, record) -> {
                context.forward(record);
                context.forward(record.withTimestamp(record.timestamp() + 1));
            });
            case "to_child" -> () -> simple((context, record) -> {
                JsonNode children = step.get("children");
                context.forward(record,
                    children.get((int) Math.floorMod(Functions.num(record.value()), (long) children.size())).asText());
            });
            case "keep" -> () -> simple((context, record) -> {
                KeyValueStore<Object, Object> store = context.getStateStore(step.get("stores").get(0).asText());
                if (record.key() != null) {
                    store.put(record.key(), record.value());
                }
            });
            default -> throw new IllegalArgumentException("the oracle knows no processor named " + name);
        };
    }

    static FixedKeyProcessorSupplier<Object, Object, Object> fixedKeySupplier(JsonNode step) {
        Step valueStep = valueStep(step.get("processor").asText());
        Set<StoreBuilder<?>> stores = step.has("brings") ? Set.of(Stores.builder(step.get("brings"))) : null;
        return new FixedKeyProcessorSupplier<>() {
            @Override
            public FixedKeyStepping get() {
                return new FixedKeyStepping(step, valueStep);
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return stores;
            }
        };
    }

    private static Processor<Object, Object, Object, Object> simple(
        BiConsumer<ProcessorContext<Object, Object>, Record<Object, Object>> body) {
        return new ContextualProcessor<>() {
            @Override
            public void process(Record<Object, Object> record) {
                body.accept(context(), record);
            }
        };
    }

    private static final class Stepping extends ContextualProcessor<Object, Object, Object, Object> {
        private final JsonNode json;
        private final Step step;

        Stepping(JsonNode json, Step step) {
            this.json = json;
            this.step = step;
        }

        @Override
        public void process(Record<Object, Object> record) {
            Stepped stepped = step.apply(context(), json, record.key(), record.value(), record.timestamp(),
                record.headers());
            if (stepped != null) {
                context().forward(record.withValue(stepped.value()).withTimestamp(stepped.timestamp())
                    .withHeaders(stepped.headers()));
            }
        }
    }

    private static final class FixedKeyStepping extends ContextualFixedKeyProcessor<Object, Object, Object>
        implements FixedKeyProcessor<Object, Object, Object> {
        private final JsonNode json;
        private final Step step;

        FixedKeyStepping(JsonNode json, Step step) {
            this.json = json;
            this.step = step;
        }

        @Override
        public void process(FixedKeyRecord<Object, Object> record) {
            Stepped stepped = step.apply(context(), json, record.key(), record.value(), record.timestamp(),
                record.headers());
            if (stepped != null) {
                context().forward(record.withValue(stepped.value()).withTimestamp(stepped.timestamp())
                    .withHeaders(stepped.headers()));
            }
        }
    }

    /** Has a callback called every "interval", from "start" on if there is one (KIP-1146). */
    private static Cancellable schedule(ProcessingContext context, JsonNode step, PunctuationType type, Punctuator callback) {
        Duration interval = Duration.ofMillis(step.get("interval").asLong());
        return step.hasNonNull("start")
            ? context.schedule(Instant.ofEpochMilli(step.get("start").asLong()), interval, type, callback)
            : context.schedule(interval, type, callback);
    }

    /** Keeps the last value per key and forwards all of them at every punctuation. */
    private static final class Dumping extends ContextualProcessor<Object, Object, Object, Object> {
        private final JsonNode json;
        private final PunctuationType type;
        private KeyValueStore<Object, Object> store;

        Dumping(JsonNode json, PunctuationType type) {
            this.json = json;
            this.type = type;
        }

        @Override
        public void init(ProcessorContext<Object, Object> context) {
            super.init(context);
            store = context.getStateStore(json.get("stores").get(0).asText());
            schedule(context, json, type, this::dump);
        }

        private void dump(long timestamp) {
            try (KeyValueIterator<Object, Object> entries = store.all()) {
                while (entries.hasNext()) {
                    KeyValue<Object, Object> entry = entries.next();
                    context().forward(new Record<>(entry.key, entry.value, timestamp));
                }
            }
        }

        @Override
        public void process(Record<Object, Object> record) {
            if (record.key() != null) {
                store.put(record.key(), record.value());
            }
        }
    }

    /** Passes records on, forwards a mark at every punctuation, and stops punctuating after the third. */
    private static final class Ticking extends ContextualProcessor<Object, Object, Object, Object> {
        private final JsonNode json;
        private final PunctuationType type;
        private Cancellable scheduled;
        private int ticks;

        Ticking(JsonNode json, PunctuationType type) {
            this.json = json;
            this.type = type;
        }

        @Override
        public void init(ProcessorContext<Object, Object> context) {
            super.init(context);
            scheduled = schedule(context, json, type, this::tick);
        }

        private void tick(long timestamp) {
            ticks++;
            if (ticks == 3) {
                scheduled.cancel();
            }
            String where = context().recordMetadata().map(RecordMetadata::topic).isPresent() ? "somewhere" : "nowhere";
            context().forward(new Record<>("tick", "tick " + ticks + " " + where + " stream "
                + context().currentStreamTimeMs() + " now " + context().currentSystemTimeMs(), timestamp));
        }

        @Override
        public void process(Record<Object, Object> record) {
            context().forward(record.withValue(Functions.text(record.value())));
        }
    }

    /** Every record, and the first call by wall clock, schedules two calls by stream time. */
    private static final class Scheduling extends ContextualProcessor<Object, Object, Object, Object> {
        private final JsonNode json;
        private Cancellable byWallClock;
        private int made;

        Scheduling(JsonNode json) {
            this.json = json;
        }

        @Override
        public void init(ProcessorContext<Object, Object> context) {
            super.init(context);
            byWallClock = schedule(context, json, PunctuationType.WALL_CLOCK_TIME, timestamp -> {
                byWallClock.cancel();
                scheduleTwo();
            });
        }

        @Override
        public void process(Record<Object, Object> record) {
            context().forward(record.withValue(Functions.text(record.value())));
            scheduleTwo();
        }

        private void scheduleTwo() {
            int number = ++made;
            int[] calls = {0};
            Cancellable[] scheduled = {null};
            scheduled[0] = schedule(context(), json, PunctuationType.STREAM_TIME, timestamp -> {
                if (++calls[0] == 2) {
                    scheduled[0].cancel();
                }
                context().forward(new Record<>("tick", "tick " + calls[0] + " of " + number, timestamp));
            });
        }
    }
}
