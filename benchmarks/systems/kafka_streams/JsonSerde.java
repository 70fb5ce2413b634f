import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** Serdes of JSON by Jackson. */
final class JsonSerde {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private JsonSerde() {}

  /** The serde of a class, or of a tree with {@code JsonNode}. */
  static <T> Serde<T> of(Class<T> kind) {
    return Serdes.serdeFrom(
        (topic, value) -> {
          try {
            return value == null ? null : MAPPER.writeValueAsBytes(value);
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        },
        (topic, bytes) -> {
          try {
            return bytes == null ? null : MAPPER.readValue(bytes, kind);
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        });
  }
}
