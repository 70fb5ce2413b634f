import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;

/** Writes one Avro record of a topic and prints its bytes, or prints the record that bytes are; by Java's serializers. */
public final class Registered {
    public static void main(String[] arguments) {
        String url = arguments[0], topic = arguments[1], what = arguments[2], data = arguments[3];
        Map<String, Object> settings = new HashMap<>();
        settings.put("apicurio.registry.url", url);
        settings.put("apicurio.registry.as-confluent", true);
        settings.put("apicurio.registry.use-id", "contentId");
        settings.put("apicurio.registry.headers.enabled", false);
        settings.put("apicurio.registry.auto-register", true);
        settings.put("apicurio.registry.auto-register.if-exists", "RETURN_OR_UPDATE");
        settings.put("apicurio.registry.artifact-resolver-strategy",
            "io.apicurio.registry.serde.strategy.TopicIdStrategy");
        if (what.equals("write")) {
            Schema schema = new Schema.Parser().parse(data);
            GenericRecord order = new GenericData.Record(schema);
            order.put("id", arguments[4]);
            order.put("cents", Long.parseLong(arguments[5]));
            try (AvroKafkaSerializer<GenericRecord> serializer = new AvroKafkaSerializer<>()) {
                serializer.configure(settings, false);
                System.out.println(Base64.getEncoder().encodeToString(serializer.serialize(topic, order)));
            }
        } else {
            try (AvroKafkaDeserializer<GenericRecord> deserializer = new AvroKafkaDeserializer<>()) {
                deserializer.configure(settings, false);
                byte[] bytes = Base64.getDecoder().decode(data.getBytes(StandardCharsets.US_ASCII));
                System.out.println(deserializer.deserialize(topic, bytes));
            }
        }
    }
}
