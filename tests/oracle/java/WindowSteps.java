import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.Windows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Steps on windowed and cogrouped streams, and suppress.
 *
 * {"windows": {"kind": "time", "size", "advance", "grace"} | {"kind": "sliding", "size", "grace"}
 * | {"kind": "session", "gap", "grace"} | {"kind": "unlimited", "start"}}; all but the first number may be left out.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
final class WindowSteps {
    private WindowSteps() { }

    static Duration ms(JsonNode options, String field) {
        return Duration.ofMillis(options.get(field).asLong());
    }

    private static Windows<?> timeWindows(JsonNode options) {
        if (options.get("kind").asText().equals("unlimited")) {
            UnlimitedWindows unlimited = UnlimitedWindows.of();
            return options.hasNonNull("start")
                ? unlimited.startOn(java.time.Instant.ofEpochMilli(options.get("start").asLong())) : unlimited;
        }
        TimeWindows windows = options.hasNonNull("grace")
            ? TimeWindows.ofSizeAndGrace(ms(options, "size"), ms(options, "grace"))
            : TimeWindows.ofSizeWithNoGrace(ms(options, "size"));
        return options.hasNonNull("advance") ? windows.advanceBy(ms(options, "advance")) : windows;
    }

    private static SlidingWindows slidingWindows(JsonNode options) {
        return options.hasNonNull("grace")
            ? SlidingWindows.ofTimeDifferenceAndGrace(ms(options, "size"), ms(options, "grace"))
            : SlidingWindows.ofTimeDifferenceWithNoGrace(ms(options, "size"));
    }

    private static SessionWindows sessionWindows(JsonNode options) {
        return options.hasNonNull("grace")
            ? SessionWindows.ofInactivityGapAndGrace(ms(options, "gap"), ms(options, "grace"))
            : SessionWindows.ofInactivityGapWithNoGrace(ms(options, "gap"));
    }

    private static EmitStrategy emit(JsonNode step) {
        return step.get("emit").asText().equals("close") ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
    }

    /** {"op": "windowed_by", "windows": ..., "emit": "close" | "update"}. */
    static Object windowedBy(JsonNode step, KGroupedStream<Object, Object> grouped) {
        JsonNode options = step.get("windows");
        switch (options.get("kind").asText()) {
            case "session": {
                SessionWindowedKStream<Object, Object> windowed = grouped.windowedBy(sessionWindows(options));
                return step.hasNonNull("emit") ? windowed.emitStrategy(emit(step)) : windowed;
            }
            case "sliding": {
                TimeWindowedKStream<Object, Object> windowed = grouped.windowedBy(slidingWindows(options));
                return step.hasNonNull("emit") ? windowed.emitStrategy(emit(step)) : windowed;
            }
            default: {
                TimeWindowedKStream<Object, Object> windowed = grouped.windowedBy((Windows) timeWindows(options));
                return step.hasNonNull("emit") ? windowed.emitStrategy(emit(step)) : windowed;
            }
        }
    }

    static KTable<?, ?> timeWindowed(JsonNode step, TimeWindowedKStream<Object, Object> windowed) {
        String fn = Options.text(step, "fn");
        Named named = Options.named(step);
        Materialized<Object, Object, WindowStore<Bytes, byte[]>> materialized = (Materialized) Options.materialized(step);
        switch (step.get("op").asText()) {
            case "count": {
                Materialized<Object, Long, WindowStore<Bytes, byte[]>> counted = (Materialized) materialized;
                if (counted == null) {
                    return named == null ? windowed.count() : windowed.count(named);
                }
                return named == null ? windowed.count(counted) : windowed.count(named, counted);
            }
            case "reduce":
                if (materialized == null) {
                    return named == null ? windowed.reduce(Functions.reducer(fn))
                        : windowed.reduce(Functions.reducer(fn), named);
                }
                return named == null ? windowed.reduce(Functions.reducer(fn), materialized)
                    : windowed.reduce(Functions.reducer(fn), named, materialized);
            case "aggregate": {
                var init = Functions.initializer(step.get("init").asText());
                var add = Functions.aggregator(fn);
                if (materialized == null) {
                    return named == null ? windowed.aggregate(init, add) : windowed.aggregate(init, add, named);
                }
                return named == null ? windowed.aggregate(init, add, materialized)
                    : windowed.aggregate(init, add, named, materialized);
            }
            default:
                throw new IllegalArgumentException("a windowed stream has no step " + step.get("op"));
        }
    }

    static KTable<?, ?> sessionWindowed(JsonNode step, SessionWindowedKStream<Object, Object> windowed) {
        String fn = Options.text(step, "fn");
        Named named = Options.named(step);
        Materialized<Object, Object, SessionStore<Bytes, byte[]>> materialized = (Materialized) Options.materialized(step);
        switch (step.get("op").asText()) {
            case "count": {
                Materialized<Object, Long, SessionStore<Bytes, byte[]>> counted = (Materialized) materialized;
                if (counted == null) {
                    return named == null ? windowed.count() : windowed.count(named);
                }
                return named == null ? windowed.count(counted) : windowed.count(named, counted);
            }
            case "reduce":
                if (materialized == null) {
                    return named == null ? windowed.reduce(Functions.reducer(fn))
                        : windowed.reduce(Functions.reducer(fn), named);
                }
                return named == null ? windowed.reduce(Functions.reducer(fn), materialized)
                    : windowed.reduce(Functions.reducer(fn), named, materialized);
            case "aggregate": {
                var init = Functions.initializer(step.get("init").asText());
                var add = Functions.aggregator(fn);
                var merge = Functions.merger(step.get("merge").asText());
                if (materialized == null) {
                    return named == null ? windowed.aggregate(init, add, merge)
                        : windowed.aggregate(init, add, merge, named);
                }
                return named == null ? windowed.aggregate(init, add, merge, materialized)
                    : windowed.aggregate(init, add, merge, named, materialized);
            }
            default:
                throw new IllegalArgumentException("a session-windowed stream has no step " + step.get("op"));
        }
    }

    /** {"op": "cogroup", "with": id, "fn"}, "windowed_by", {"op": "aggregate", "init", "merge"}. */
    static Object cogrouped(JsonNode step, CogroupedKStream<Object, Object> cogrouped, Object with) {
        switch (step.get("op").asText()) {
            case "cogroup":
                return cogrouped.cogroup((KGroupedStream<Object, Object>) with,
                    Functions.aggregator(step.get("fn").asText()));
            case "windowed_by": {
                JsonNode options = step.get("windows");
                return switch (options.get("kind").asText()) {
                    case "session" -> cogrouped.windowedBy(sessionWindows(options));
                    case "sliding" -> cogrouped.windowedBy(slidingWindows(options));
                    default -> cogrouped.windowedBy((Windows) timeWindows(options));
                };
            }
            case "aggregate": {
                var init = Functions.initializer(step.get("init").asText());
                Named named = Options.named(step);
                Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized = Options.materialized(step);
                if (materialized == null) {
                    return named == null ? cogrouped.aggregate(init) : cogrouped.aggregate(init, named);
                }
                return named == null ? cogrouped.aggregate(init, materialized)
                    : cogrouped.aggregate(init, named, materialized);
            }
            default:
                throw new IllegalArgumentException("a cogrouped stream has no step " + step.get("op"));
        }
    }

    static KTable<?, ?> timeCogrouped(JsonNode step, TimeWindowedCogroupedKStream<Object, Object> windowed) {
        var init = Functions.initializer(step.get("init").asText());
        Named named = Options.named(step);
        Materialized<Object, Object, WindowStore<Bytes, byte[]>> materialized = (Materialized) Options.materialized(step);
        if (materialized == null) {
            return named == null ? windowed.aggregate(init) : windowed.aggregate(init, named);
        }
        return named == null ? windowed.aggregate(init, materialized) : windowed.aggregate(init, named, materialized);
    }

    static KTable<?, ?> sessionCogrouped(JsonNode step, SessionWindowedCogroupedKStream<Object, Object> windowed) {
        var init = Functions.initializer(step.get("init").asText());
        var merge = Functions.merger(step.get("merge").asText());
        Named named = Options.named(step);
        Materialized<Object, Object, SessionStore<Bytes, byte[]>> materialized = (Materialized) Options.materialized(step);
        if (materialized == null) {
            return named == null ? windowed.aggregate(init, merge) : windowed.aggregate(init, merge, named);
        }
        return named == null ? windowed.aggregate(init, merge, materialized)
            : windowed.aggregate(init, merge, named, materialized);
    }

    /**
     * {"op": "suppress", "until": "window_closes" | {"time_limit": ms}, "records", "bytes", "full": "emit" | "shutdown",
     * "logging", "name"}; without limits the buffer is unbounded.
     */
    static KTable<?, ?> suppress(JsonNode step, KTable<Object, Object> table) {
        boolean emitEarly = step.path("full").asText("shutdown").equals("emit");
        Suppressed<?> suppressed;
        if (step.get("until").isTextual()) {
            suppressed = Suppressed.untilWindowCloses((Suppressed.StrictBufferConfig) buffer(step, false));
        } else {
            suppressed = Suppressed.untilTimeLimit(ms(step.get("until"), "time_limit"), buffer(step, emitEarly));
        }
        if (step.hasNonNull("name")) {
            suppressed = suppressed.withName(step.get("name").asText());
        }
        return table.suppress((Suppressed) suppressed);
    }

    private static Suppressed.BufferConfig<?> buffer(JsonNode step, boolean emitEarly) {
        boolean records = step.hasNonNull("records");
        boolean bytes = step.hasNonNull("bytes");
        if (!records && !bytes) {
            Suppressed.StrictBufferConfig unbounded = Suppressed.BufferConfig.unbounded();
            return step.path("logging").asBoolean(true) ? unbounded
                : (Suppressed.BufferConfig<?>) unbounded.withLoggingDisabled();
        }
        Suppressed.EagerBufferConfig eager = records
            ? Suppressed.BufferConfig.maxRecords(step.get("records").asLong())
            : Suppressed.BufferConfig.maxBytes(step.get("bytes").asLong());
        if (records && bytes) {
            eager = eager.withMaxBytes(step.get("bytes").asLong());
        }
        Suppressed.BufferConfig<?> config = emitEarly ? eager.emitEarlyWhenFull() : eager.shutDownWhenFull();
        return step.path("logging").asBoolean(true) ? config : (Suppressed.BufferConfig<?>) config.withLoggingDisabled();
    }
}
