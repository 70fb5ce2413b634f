import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.UUID;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.TimeWindowedDeserializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.SessionWindowedDeserializer;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.Change;
import org.apache.kafka.streams.kstream.internals.ChangedDeserializer;
import org.apache.kafka.streams.kstream.internals.ChangedSerializer;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

/**
 * Serdes by name, and their values as JSON.
 *
 * Names: string long integer short double float boolean uuid bytes void, and list(X), changed(X),
 * time_windowed(X,size), session_windowed(X). Numbers with a fraction travel as text ("1.5", "NaN"), bytes as
 * {"b64": ...}, everything else as JSON's own kind.
 */
final class SerdeTable {
    private SerdeTable() { }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Serde<Object> serde(String name) {
        return (Serde) make(name);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Serde<?> make(String name) {
        if (name.startsWith("list(")) {
            return Serdes.ListSerde(ArrayList.class, (Serde) make(inner(name)));
        }
        if (name.startsWith("changed(")) {
            Serde<Object> inner = serde(inner(name));
            Serializer serializer = new ChangedSerializer<>(inner.serializer());
            Deserializer deserializer = new ChangedDeserializer<>(inner.deserializer());
            return Serdes.serdeFrom(serializer, deserializer);
        }
        if (name.startsWith("time_windowed(")) {
            Serde<Object> inner = serde(inner(name));
            Serializer serializer = new TimeWindowedSerializer<>(inner.serializer());
            Deserializer deserializer = new TimeWindowedDeserializer<>(inner.deserializer(), size(name));
            return Serdes.serdeFrom(serializer, deserializer);
        }
        if (name.startsWith("session_windowed(")) {
            Serde<Object> inner = serde(inner(name));
            Serializer serializer = new SessionWindowedSerializer<>(inner.serializer());
            Deserializer deserializer = new SessionWindowedDeserializer<>(inner.deserializer());
            return Serdes.serdeFrom(serializer, deserializer);
        }
        return switch (name) {
            case "string" -> Serdes.String();
            case "long" -> Serdes.Long();
            case "integer" -> Serdes.Integer();
            case "short" -> Serdes.Short();
            case "double" -> Serdes.Double();
            case "float" -> Serdes.Float();
            case "boolean" -> Serdes.Boolean();
            case "uuid" -> Serdes.UUID();
            case "bytes" -> Serdes.ByteArray();
            case "void" -> Serdes.Void();
            default -> throw new IllegalArgumentException("the oracle knows no serde named " + name);
        };
    }

    private static String inner(String name) {
        String inside = name.substring(name.indexOf('(') + 1, name.length() - 1);
        return name.startsWith("time_windowed(") ? inside.substring(0, inside.lastIndexOf(',')) : inside;
    }

    private static long size(String name) {
        return Long.parseLong(name.substring(name.lastIndexOf(',') + 1, name.length() - 1).trim());
    }

    static Object value(String serde, JsonNode json) {
        if (json == null || json.isNull()) {
            return null;
        }
        if (serde.startsWith("list(")) {
            List<Object> items = new ArrayList<>();
            json.forEach(item -> items.add(value(inner(serde), item)));
            return items;
        }
        if (serde.startsWith("changed(")) {
            return new Change<>(value(inner(serde), json.get(0)), value(inner(serde), json.get(1)));
        }
        if (serde.startsWith("time_windowed(") || serde.startsWith("session_windowed(")) {
            long start = json.get("start").asLong();
            long end = json.get("end").asLong();
            return new Windowed<>(value(inner(serde), json.get("key")),
                serde.startsWith("time") ? new TimeWindow(start, end) : new SessionWindow(start, end));
        }
        return switch (serde) {
            case "string" -> json.asText();
            case "long" -> json.asLong();
            case "integer" -> json.asInt();
            case "short" -> (short) json.asInt();
            case "double" -> Double.parseDouble(json.asText());
            case "float" -> Float.parseFloat(json.asText());
            case "boolean" -> json.asBoolean();
            case "uuid" -> UUID.fromString(json.asText());
            case "bytes" -> Base64.getDecoder().decode(json.get("b64").asText());
            default -> throw new IllegalArgumentException("no value but null fits serde " + serde);
        };
    }

    static JsonNode json(Object value) {
        JsonNodeFactory nodes = JsonNodeFactory.instance;
        if (value == null) {
            return nodes.nullNode();
        }
        if (value instanceof byte[] bytes) {
            return nodes.objectNode().put("b64", Base64.getEncoder().encodeToString(bytes));
        }
        if (value instanceof Bytes bytes) {
            return json(bytes.get());
        }
        if (value instanceof List<?> items) {
            ArrayNode array = nodes.arrayNode();
            items.forEach(item -> array.add(json(item)));
            return array;
        }
        if (value instanceof Change<?> change) {
            return nodes.arrayNode().add(json(change.newValue)).add(json(change.oldValue));
        }
        if (value instanceof Windowed<?> windowed) {
            ObjectNode object = nodes.objectNode();
            object.set("key", json(windowed.key()));
            return object.put("start", windowed.window().start()).put("end", windowed.window().end());
        }
        if (value instanceof ValueAndTimestamp<?> stamped) {
            ObjectNode object = nodes.objectNode();
            object.set("value", json(stamped.value()));
            return object.put("timestamp", stamped.timestamp());
        }
        if (value instanceof ValueTimestampHeaders<?> headed) {
            ObjectNode object = nodes.objectNode();
            object.set("value", json(headed.value()));
            object.put("timestamp", headed.timestamp());
            object.set("headers", json(headed.headers()));
            return object;
        }
        if (value instanceof AggregationWithHeaders<?> headed) {
            ObjectNode object = nodes.objectNode();
            object.set("value", json(headed.aggregation()));
            object.set("headers", json(headed.headers()));
            return object;
        }
        if (value instanceof Headers headers) {
            ArrayNode array = nodes.arrayNode();
            headers.forEach(header -> array.addArray().add(header.key())
                .add(header.value() == null ? null : Base64.getEncoder().encodeToString(header.value())));
            return array;
        }
        if (value instanceof Boolean flag) {
            return nodes.booleanNode(flag);
        }
        if (value instanceof Long || value instanceof Integer || value instanceof Short) {
            return nodes.numberNode(((Number) value).longValue());
        }
        return nodes.textNode(value.toString());
    }
}
