import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;

/** Kafka Streams behind a pipe: one JSON request per line in, one JSON answer per line out. README.md lists the kinds. */
public final class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Oracle() { }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(line)));
        }
    }

    private static ObjectNode answer(String line) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            JsonNode request = JSON.readTree(line);
            switch (request.get("kind").asText()) {
                case "describe" -> answer.put("describe", build(request, config(request)).describe().toString());
                case "run" -> new DriverRun(request, config(request)).into(answer);
                case "serialize" -> serialize(request, answer.putArray("bytes"));
                case "deserialize" -> deserialize(request, answer.putArray("values"));
                case "murmur2" -> murmur2(request, answer);
                default -> throw new IllegalArgumentException("the oracle answers no " + request.get("kind"));
            }
        } catch (Exception | AssertionError failure) {
            fail(answer, failure);
        }
        return answer;
    }

    /** Names the failure by class, with those of its causes. */
    static void fail(ObjectNode answer, Throwable failure) {
        answer.put("error", failure.getClass().getSimpleName());
        answer.put("message", String.valueOf(failure.getMessage()));
        ArrayNode causes = answer.putArray("causes");
        for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause()) {
            causes.add(cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
    }

    static Properties config(JsonNode request) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, request.path("cache").asBoolean(false) ? 10485760 : 0);
        JsonNode optimize = request.path("optimize");
        config.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, optimize.isTextual() ? optimize.asText()
            : optimize.asBoolean(false) ? StreamsConfig.OPTIMIZE : StreamsConfig.NO_OPTIMIZATION);
        if (request.path("survives").asBoolean(false)) {
            config.put(StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueExceptionHandler.class);
            config.put(StreamsConfig.PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueProcessingExceptionHandler.class);
        }
        request.path("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        return config;
    }

    static Topology build(JsonNode request, Properties config) {
        return request.path("api").asText("dsl").equals("topology")
            ? RawProgram.build(request.get("steps"), config) : DslProgram.build(request.get("steps"), config);
    }

    private static void serialize(JsonNode request, ArrayNode bytes) {
        String serde = request.get("serde").asText();
        for (JsonNode value : request.get("values")) {
            byte[] data = SerdeTable.serde(serde).serializer().serialize("topic", new RecordHeaders(), SerdeTable.value(serde, value));
            bytes.add(data == null ? null : Base64.getEncoder().encodeToString(data));
        }
    }

    /** Each value on its own: bytes that do not fit answer {"error": class}. */
    private static void deserialize(JsonNode request, ArrayNode values) {
        String serde = request.get("serde").asText();
        for (JsonNode bytes : request.get("bytes")) {
            byte[] data = bytes.isNull() ? null : Base64.getDecoder().decode(bytes.asText());
            try {
                values.add(SerdeTable.json(SerdeTable.serde(serde).deserializer().deserialize("topic", new RecordHeaders(), data)));
            } catch (RuntimeException failure) {
                values.addObject().put("error", failure.getClass().getSimpleName());
            }
        }
    }

    private static void murmur2(JsonNode request, ObjectNode answer) {
        ArrayNode hashes = answer.putArray("hashes");
        ArrayNode partitions = answer.putArray("partitions");
        for (JsonNode key : request.get("keys")) {
            int hash = Utils.murmur2(Base64.getDecoder().decode(key.asText()));
            hashes.add(hash);
            partitions.add(Utils.toPositive(hash) % request.path("partitions").asInt(1));
        }
    }
}
