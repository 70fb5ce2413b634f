import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/**
 * Store builders from {"name", "kind", "engine": "rocksdb"|"memory", "key", "value", "logging", "caching"}.
 *
 * Kinds: kv, timestamped; window, timestamped_window with "retention", "size" (of a window) and "duplicates"; session with
 * "retention"; versioned with "retention" and perhaps "segment"; and with headers (KIP-1271) headed, headed_window and
 * headed_session. Numbers are milliseconds.
 */
final class Stores {
    private Stores() { }

    static StoreBuilder<?> builder(JsonNode step) {
        StoreBuilder<?> builder = plain(step, step.get("name").asText());
        if (!step.path("logging").asBoolean(true)) {
            builder = builder.withLoggingDisabled();
        }
        return step.path("caching").asBoolean(false) ? builder.withCachingEnabled() : builder;
    }

    private static StoreBuilder<?> plain(JsonNode step, String name) {
        Serde<Object> key = SerdeTable.serde(step.get("key").asText());
        Serde<Object> value = SerdeTable.serde(step.get("value").asText());
        return switch (step.path("kind").asText("kv")) {
            case "timestamped" -> org.apache.kafka.streams.state.Stores
                .timestampedKeyValueStoreBuilder(supplier(step, name), key, value);
            case "headed" -> org.apache.kafka.streams.state.Stores
                .timestampedKeyValueStoreWithHeadersBuilder(supplier(step, name), key, value);
            case "headed_window" -> org.apache.kafka.streams.state.Stores
                .timestampedWindowStoreWithHeadersBuilder(windows(step, name), key, value);
            case "headed_session" -> org.apache.kafka.streams.state.Stores
                .sessionStoreWithHeadersBuilder(sessions(step, name), key, value);
            case "window" -> org.apache.kafka.streams.state.Stores.windowStoreBuilder(windows(step, name), key, value);
            case "timestamped_window" -> org.apache.kafka.streams.state.Stores
                .timestampedWindowStoreBuilder(windows(step, name), key, value);
            case "session" -> org.apache.kafka.streams.state.Stores.sessionStoreBuilder(sessions(step, name), key, value);
            case "versioned" -> org.apache.kafka.streams.state.Stores
                .versionedKeyValueStoreBuilder(versions(step, name), key, value);
            default -> org.apache.kafka.streams.state.Stores.keyValueStoreBuilder(supplier(step, name), key, value);
        };
    }

    private static boolean inMemory(JsonNode step) {
        return step.path("engine").asText("rocksdb").equals("memory");
    }

    static WindowBytesStoreSupplier windows(JsonNode step, String name) {
        Duration retention = WindowSteps.ms(step, "retention");
        Duration size = WindowSteps.ms(step, "size");
        boolean duplicates = step.path("duplicates").asBoolean(false);
        if (inMemory(step)) {
            return org.apache.kafka.streams.state.Stores.inMemoryWindowStore(name, retention, size, duplicates);
        }
        return switch (step.path("kind").asText()) {
            case "headed_window" -> org.apache.kafka.streams.state.Stores
                .persistentTimestampedWindowStoreWithHeaders(name, retention, size, duplicates);
            case "timestamped_window" -> org.apache.kafka.streams.state.Stores
                .persistentTimestampedWindowStore(name, retention, size, duplicates);
            default -> org.apache.kafka.streams.state.Stores.persistentWindowStore(name, retention, size, duplicates);
        };
    }

    static SessionBytesStoreSupplier sessions(JsonNode step, String name) {
        Duration retention = WindowSteps.ms(step, "retention");
        if (inMemory(step)) {
            return org.apache.kafka.streams.state.Stores.inMemorySessionStore(name, retention);
        }
        return step.path("kind").asText().equals("headed_session")
            ? org.apache.kafka.streams.state.Stores.persistentSessionStoreWithHeaders(name, retention)
            : org.apache.kafka.streams.state.Stores.persistentSessionStore(name, retention);
    }

    private static VersionedBytesStoreSupplier versions(JsonNode step, String name) {
        Duration retention = WindowSteps.ms(step, "retention");
        return step.hasNonNull("segment")
            ? org.apache.kafka.streams.state.Stores
                .persistentVersionedKeyValueStore(name, retention, WindowSteps.ms(step, "segment"))
            : org.apache.kafka.streams.state.Stores.persistentVersionedKeyValueStore(name, retention);
    }

    private static KeyValueBytesStoreSupplier supplier(JsonNode step, String name) {
        if (inMemory(step)) {
            return org.apache.kafka.streams.state.Stores.inMemoryKeyValueStore(name);
        }
        return switch (step.path("kind").asText("kv")) {
            case "headed" -> org.apache.kafka.streams.state.Stores.persistentTimestampedKeyValueStoreWithHeaders(name);
            case "timestamped" -> org.apache.kafka.streams.state.Stores.persistentTimestampedKeyValueStore(name);
            default -> org.apache.kafka.streams.state.Stores.persistentKeyValueStore(name);
        };
    }
}
