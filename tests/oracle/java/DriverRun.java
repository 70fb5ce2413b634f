import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/** One program and its events through a TopologyTestDriver: every output topic's records, every store's content. */
final class DriverRun {
    private final JsonNode request;
    private final Properties config;
    private final Map<String, TestInputTopic<byte[], byte[]>> inputs = new HashMap<>();

    DriverRun(JsonNode request, Properties config) {
        this.request = request;
        this.config = config;
    }

    void into(ObjectNode answer) throws Exception {
        Path directory = Files.createTempDirectory("oracle");
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        try {
            var topology = Oracle.build(request, config);
            answer.put("describe", topology.describe().toString());
            TopologyTestDriver driver = new TopologyTestDriver(topology, config,
                Instant.ofEpochMilli(request.path("wall_clock").asLong(0)));
            try {
                play(driver, answer);
                outputs(driver, answer.putObject("outputs"));
                stores(driver, answer.putObject("stores"));
            } finally {
                close(driver, answer);
            }
        } finally {
            Utils.delete(directory.toFile());
        }
    }

    private static void close(TopologyTestDriver driver, ObjectNode answer) {
        try {
            driver.close();
        } catch (RuntimeException failure) {
            answer.put("close_error", failure.getClass().getSimpleName());
        }
    }

    /** Plays the events; a failing one ends the play and is named by its index. */
    private void play(TopologyTestDriver driver, ObjectNode answer) {
        int index = 0;
        try {
            for (JsonNode event : request.get("events")) {
                if (event.has("advance")) {
                    driver.advanceWallClockTime(Duration.ofMillis(event.get("advance").asLong()));
                } else {
                    pipe(driver, event);
                }
                index++;
            }
        } catch (RuntimeException failure) {
            answer.put("failed_at", index);
            Oracle.fail(answer, failure);
        }
    }

    private void pipe(TopologyTestDriver driver, JsonNode event) {
        String topic = event.get("topic").asText();
        TestInputTopic<byte[], byte[]> input = inputs.computeIfAbsent(topic, name ->
            driver.createInputTopic(name, new ByteArraySerializer(), new ByteArraySerializer()));
        Headers headers = new RecordHeaders();
        for (JsonNode header : event.path("headers")) {
            headers.add(header.get(0).asText(),
                header.get(1).isNull() ? null : Base64.getDecoder().decode(header.get(1).asText()));
        }
        input.pipeInput(new TestRecord<>(bytes(event, "key"), bytes(event, "value"), headers, event.get("ts").asLong()));
    }

    /** {"key": value of the topic's serde} or {"key_raw": base64}. */
    private byte[] bytes(JsonNode event, String side) {
        if (event.hasNonNull(side + "_raw")) {
            return Base64.getDecoder().decode(event.get(side + "_raw").asText());
        }
        String topic = event.get("topic").asText();
        String serde = request.get("inputs").get(topic).get(side).asText();
        return SerdeTable.serde(serde).serializer().serialize(topic, SerdeTable.value(serde, event.get(side)));
    }

    private static void outputs(TopologyTestDriver driver, ObjectNode outputs) {
        for (String topic : new TreeSet<>(driver.producedTopicNames())) {
            ArrayNode records = outputs.putArray(topic);
            driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer())
                .readRecordsToList()
                .forEach(record -> records.add(json(record)));
        }
    }

    private static ObjectNode json(TestRecord<byte[], byte[]> record) {
        ObjectNode object = JsonNodeFactory.instance.objectNode();
        object.put("key", record.key() == null ? null : Base64.getEncoder().encodeToString(record.key()));
        object.put("value", record.value() == null ? null : Base64.getEncoder().encodeToString(record.value()));
        object.put("ts", record.timestamp());
        ArrayNode headers = object.putArray("headers");
        record.headers().forEach(header -> headers.addArray().add(header.key())
            .add(header.value() == null ? null : Base64.getEncoder().encodeToString(header.value())));
        return object;
    }

    private static void stores(TopologyTestDriver driver, ObjectNode stores) {
        for (Map.Entry<String, StateStore> entry : new TreeMap<>(driver.getAllStateStores()).entrySet()) {
            if (entry.getValue() instanceof KeyValueStore<?, ?> store) {
                entries(store.all(), stores.putArray(entry.getKey()));
            } else if (entry.getValue() instanceof WindowStore<?, ?> store) {
                entries(store.all(), stores.putArray(entry.getKey()));
            } else if (entry.getValue() instanceof SessionStore<?, ?> store) {
                entries(store.fetch(null, null), stores.putArray(entry.getKey()));
            }
        }
    }

    private static void entries(KeyValueIterator<?, ?> all, ArrayNode entries) {
        try (all) {
            while (all.hasNext()) {
                KeyValue<?, ?> next = all.next();
                entries.addArray().add(SerdeTable.json(next.key)).add(SerdeTable.json(next.value));
            }
        }
    }
}
