import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.StoreBuilder;

/** Store builders from {"name", "kind": "kv"|"timestamped", "engine": "rocksdb"|"memory", "key", "value", "logging", "caching"}. */
final class Stores {
    private Stores() { }

    static StoreBuilder<?> builder(JsonNode step) {
        String name = step.get("name").asText();
        KeyValueBytesStoreSupplier supplier = supplier(step, name);
        Serde<Object> key = SerdeTable.serde(step.get("key").asText());
        Serde<Object> value = SerdeTable.serde(step.get("value").asText());
        StoreBuilder<?> builder = step.path("kind").asText("kv").equals("timestamped")
            ? org.apache.kafka.streams.state.Stores.timestampedKeyValueStoreBuilder(supplier, key, value)
            : org.apache.kafka.streams.state.Stores.keyValueStoreBuilder(supplier, key, value);
        if (!step.path("logging").asBoolean(true)) {
            builder = builder.withLoggingDisabled();
        }
        return step.path("caching").asBoolean(false) ? builder.withCachingEnabled() : builder;
    }

    private static KeyValueBytesStoreSupplier supplier(JsonNode step, String name) {
        if (step.path("engine").asText("rocksdb").equals("memory")) {
            return org.apache.kafka.streams.state.Stores.inMemoryKeyValueStore(name);
        }
        return step.path("kind").asText("kv").equals("timestamped")
            ? org.apache.kafka.streams.state.Stores.persistentTimestampedKeyValueStore(name)
            : org.apache.kafka.streams.state.Stores.persistentKeyValueStore(name);
    }
}
