import com.fasterxml.jackson.databind.JsonNode;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;

/** A program of the Topology API: its steps are the builder's calls. */
final class RawProgram {
    private final Topology topology;

    private RawProgram(Topology topology) {
        this.topology = topology;
    }

    static Topology build(JsonNode steps, Properties config) {
        Topology topology = new Topology(new TopologyConfig(new StreamsConfig(config)));
        RawProgram program = new RawProgram(topology);
        steps.forEach(program::step);
        return topology;
    }

    private void step(JsonNode step) {
        String name = Options.text(step, "name");
        switch (step.get("op").asText()) {
            case "source" -> source(step, name);
            case "processor" -> topology.addProcessor(name, Processors.supplier(step), DslProgram.names(step, "parents"));
            case "sink" -> sink(step, name);
            case "store" -> topology.addStateStore(Stores.builder(step), DslProgram.names(step, "processors"));
            case "connect" -> topology.connectProcessorAndStateStores(step.get("processor").asText(),
                DslProgram.names(step, "stores"));
            case "read_only_store" -> addReadOnlyStore(topology, step);
            case "global_store" -> topology.addGlobalStore(Stores.builder(step.get("store")), step.get("source").asText(),
                deserializer(step, "key"), deserializer(step, "value"), step.get("topic").asText(),
                step.get("processor").asText(), globalProcessor(step));
            default -> throw new IllegalArgumentException("a topology has no step " + step.get("op"));
        }
    }

    static void addReadOnlyStore(Topology topology, JsonNode step) {
        topology.addReadOnlyStateStore(Stores.builder(step.get("store")), step.get("source").asText(),
            deserializer(step, "key"), deserializer(step, "value"), step.get("topic").asText(),
            step.get("processor").asText(), globalProcessor(step));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static ProcessorSupplier<Object, Object, Void, Void> globalProcessor(JsonNode step) {
        com.fasterxml.jackson.databind.node.ObjectNode keep = com.fasterxml.jackson.databind.node.JsonNodeFactory.instance
            .objectNode().put("processor", "keep");
        keep.putArray("stores").add(step.get("store").get("name").asText());
        return (ProcessorSupplier) Processors.supplier(keep);
    }

    private void source(JsonNode step, String name) {
        String reset = Options.text(step, "reset");
        org.apache.kafka.streams.AutoOffsetReset policy = reset == null ? null : Options.reset(reset);
        var extractor = step.hasNonNull("extractor") ? Functions.extractor(step.get("extractor").asText()) : null;
        Deserializer<Object> key = deserializer(step, "key");
        Deserializer<Object> value = deserializer(step, "value");
        if (step.hasNonNull("pattern")) {
            topology.addSource(policy, name, extractor, key, value, Pattern.compile(step.get("pattern").asText()));
        } else {
            topology.addSource(policy, name, extractor, key, value, DslProgram.names(step, "topics"));
        }
    }

    private void sink(JsonNode step, String name) {
        Serializer<Object> key = serializer(step, "key");
        Serializer<Object> value = serializer(step, "value");
        String[] parents = DslProgram.names(step, "parents");
        if (step.hasNonNull("extractor")) {
            topology.addSink(name, Functions.topicExtractor(step.get("extractor").asText()), key, value, parents);
        } else {
            topology.addSink(name, step.get("topic").asText(), key, value, parents);
        }
    }

    private static Deserializer<Object> deserializer(JsonNode step, String side) {
        return step.hasNonNull(side) ? SerdeTable.serde(step.get(side).asText()).deserializer() : null;
    }

    private static Serializer<Object> serializer(JsonNode step, String side) {
        return step.hasNonNull(side) ? SerdeTable.serde(step.get(side).asText()).serializer() : null;
    }
}
