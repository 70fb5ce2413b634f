import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.AutoOffsetReset;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueStore;

/** The option objects of the DSL, from the options of a step. Every method answers null where a step has none. */
final class Options {
    private Options() { }

    static Serde<Object> serde(JsonNode options, String side) {
        return options.hasNonNull(side) ? SerdeTable.serde(options.get(side).asText()) : null;
    }

    static String text(JsonNode list, int index) {
        return list.hasNonNull(index) ? list.get(index).asText() : null;
    }

    static String text(JsonNode options, String name) {
        return options.hasNonNull(name) ? options.get(name).asText() : null;
    }

    static AutoOffsetReset reset(String policy) {
        return switch (policy) {
            case "earliest" -> AutoOffsetReset.earliest();
            case "latest" -> AutoOffsetReset.latest();
            default -> AutoOffsetReset.none();
        };
    }

    static Named named(JsonNode step) {
        return step.hasNonNull("name") ? Named.as(step.get("name").asText()) : null;
    }

    static Consumed<Object, Object> consumed(JsonNode step) {
        JsonNode options = step.path("consumed");
        Consumed<Object, Object> consumed = Consumed.with(serde(options, "key"), serde(options, "value"));
        if (options.hasNonNull("name")) {
            consumed = consumed.withName(options.get("name").asText());
        }
        if (options.hasNonNull("extractor")) {
            consumed = consumed.withTimestampExtractor(Functions.extractor(options.get("extractor").asText()));
        }
        if (options.hasNonNull("reset")) {
            consumed = consumed.withOffsetResetPolicy(reset(options.get("reset").asText()));
        }
        return consumed;
    }

    static Produced<Object, Object> produced(JsonNode step) {
        JsonNode options = step.path("produced");
        Produced<Object, Object> produced = Produced.with(serde(options, "key"), serde(options, "value"));
        if (options.hasNonNull("name")) {
            produced = produced.withName(options.get("name").asText());
        }
        if (options.hasNonNull("partitioner")) {
            produced = produced.withStreamPartitioner(Functions.partitioner(options.get("partitioner").asText()));
        }
        return produced;
    }

    static Grouped<Object, Object> grouped(JsonNode step) {
        if (!step.hasNonNull("grouped")) {
            return null;
        }
        JsonNode options = step.get("grouped");
        Grouped<Object, Object> grouped = Grouped.with(serde(options, "key"), serde(options, "value"));
        return options.hasNonNull("name") ? grouped.withName(options.get("name").asText()) : grouped;
    }

    static Repartitioned<Object, Object> repartitioned(JsonNode step) {
        Repartitioned<Object, Object> repartitioned = Repartitioned.with(serde(step, "key"), serde(step, "value"));
        if (step.hasNonNull("name")) {
            repartitioned = repartitioned.withName(step.get("name").asText());
        }
        if (step.hasNonNull("partitioner")) {
            repartitioned = repartitioned.withStreamPartitioner(Functions.partitioner(step.get("partitioner").asText()));
        }
        return step.hasNonNull("partitions")
            ? repartitioned.withNumberOfPartitions(step.get("partitions").asInt()) : repartitioned;
    }

    /** {"supplied": {"kind": "window" | "session", "size", "retention", "engine"}}: the store by its supplier. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> supplied(JsonNode options,
            Serde<Object> key, Serde<Object> value) {
        JsonNode supplied = options.get("supplied");
        String name = options.get("name").asText();
        Materialized materialized = supplied.get("kind").asText().equals("session")
            ? Materialized.as(Stores.sessions(supplied, name)) : Materialized.as(Stores.windows(supplied, name));
        return materialized.withKeySerde(key).withValueSerde(value);
    }

    static Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized(JsonNode step) {
        if (!step.hasNonNull("materialized")) {
            return null;
        }
        JsonNode options = step.get("materialized");
        Serde<Object> key = serde(options, "key");
        Serde<Object> value = serde(options, "value");
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized = options.hasNonNull("name")
            ? Materialized.<Object, Object, KeyValueStore<Bytes, byte[]>>as(options.get("name").asText())
                .withKeySerde(key).withValueSerde(value)
            : Materialized.with(key, value);
        if (options.hasNonNull("versioned")) {
            materialized = Materialized.<Object, Object>as(org.apache.kafka.streams.state.Stores
                .persistentVersionedKeyValueStore(options.get("name").asText(),
                    java.time.Duration.ofMillis(options.get("versioned").asLong())))
                .withKeySerde(key).withValueSerde(value);
        }
        if (options.hasNonNull("supplied")) {
            return supplied(options, key, value);
        }
        if (options.hasNonNull("engine")) {
            materialized = materialized.withStoreType(options.get("engine").asText().equals("memory")
                ? BuiltInDslStoreSuppliers.IN_MEMORY : BuiltInDslStoreSuppliers.ROCKS_DB);
        }
        if (!options.path("logging").asBoolean(true)) {
            materialized = materialized.withLoggingDisabled();
        }
        if (options.hasNonNull("retention")) {
            materialized = materialized.withRetention(java.time.Duration.ofMillis(options.get("retention").asLong()));
        }
        return options.path("caching").asBoolean(true) ? materialized : materialized.withCachingDisabled();
    }
}
