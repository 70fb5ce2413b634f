import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.BranchedKStream;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.SessionWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedCogroupedKStream;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.ValueMapperWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.processor.ProcessorContext;
import org.apache.kafka.streams.state.KeyValueStore;

/** A program of the DSL: each step makes one stream, table or grouping, and later steps name it by its id. */
final class DslProgram {
    private final StreamsBuilder builder;
    private final Map<String, Object> made = new HashMap<>();
    /** Stores that only a Topology has, by name: they are added, and connected, when the DSL is done. */
    private final Map<String, JsonNode> readOnly = new LinkedHashMap<>();
    private final Map<String, List<String>> readers = new LinkedHashMap<>();

    private DslProgram(StreamsBuilder builder) {
        this.builder = builder;
    }

    static Topology build(JsonNode steps, Properties config) {
        StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(config)));
        DslProgram program = new DslProgram(builder);
        steps.forEach(program::step);
        Topology topology = builder.build(config);
        program.readOnly.values().forEach(step -> RawProgram.addReadOnlyStore(topology, step));
        program.readers.forEach((node, stores) ->
            topology.connectProcessorAndStateStores(node, stores.toArray(new String[0])));
        return topology;
    }

    /** The stores that a step is connected to now; those that only a Topology has are connected to its node later. */
    private String[] stores(JsonNode step) {
        if (step.has("brings")) {
            return new String[0];
        }
        List<String> now = new ArrayList<>(List.of(names(step, "stores")));
        List<String> later = new ArrayList<>(now);
        later.retainAll(readOnly.keySet());
        if (!later.isEmpty()) {
            readers.put(step.get("name").asText(), later);
        }
        now.removeAll(later);
        return now.toArray(new String[0]);
    }

    @SuppressWarnings("unchecked")
    private <T> T of(JsonNode step, String field) {
        Object found = made.get(step.get(field).asText());
        if (found == null) {
            throw new IllegalArgumentException("no earlier step has the id " + step.get(field));
        }
        return (T) found;
    }

    private void step(JsonNode step) {
        Object result;
        if (!step.hasNonNull("of")) {
            result = start(step);
        } else {
            Object of = of(step, "of");
            if (of instanceof KStream<?, ?>) {
                result = stream(step, of(step, "of"));
            } else if (of instanceof KTable<?, ?>) {
                result = table(step, of(step, "of"));
            } else if (of instanceof KGroupedStream<?, ?>) {
                result = grouped(step, of(step, "of"));
            } else if (of instanceof CogroupedKStream<?, ?>) {
                result = WindowSteps.cogrouped(step, of(step, "of"), step.hasNonNull("with") ? of(step, "with") : null);
            } else if (of instanceof TimeWindowedKStream<?, ?>) {
                result = WindowSteps.timeWindowed(step, of(step, "of"));
            } else if (of instanceof SessionWindowedKStream<?, ?>) {
                result = WindowSteps.sessionWindowed(step, of(step, "of"));
            } else if (of instanceof TimeWindowedCogroupedKStream<?, ?>) {
                result = WindowSteps.timeCogrouped(step, of(step, "of"));
            } else if (of instanceof SessionWindowedCogroupedKStream<?, ?>) {
                result = WindowSteps.sessionCogrouped(step, of(step, "of"));
            } else {
                result = groupedTable(step, of(step, "of"));
            }
        }
        if (result != null && step.hasNonNull("id")) {
            made.put(step.get("id").asText(), result);
        }
    }

    private Object start(JsonNode step) {
        switch (step.get("op").asText()) {
            case "store" -> builder.addStateStore(Stores.builder(step));
            case "read_only_store" -> readOnly.put(step.get("store").get("name").asText(), step);
            case "global_store" -> builder.addGlobalStore(Stores.builder(step.get("store")), step.get("topic").asText(),
                Options.consumed(step), RawProgram.globalProcessor(step));
            case "global_table" -> {
                Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized = Options.materialized(step);
                String topic = step.get("topic").asText();
                return materialized == null ? builder.globalTable(topic, Options.consumed(step))
                    : builder.globalTable(topic, Options.consumed(step), materialized);
            }
            case "stream" -> {
                return source(step);
            }
            case "table" -> {
                Consumed<Object, Object> consumed = Options.consumed(step);
                Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized = Options.materialized(step);
                String topic = step.get("topic").asText();
                return materialized == null ? builder.table(topic, consumed)
                    : builder.table(topic, consumed, materialized);
            }
            default -> throw new IllegalArgumentException("a builder has no step " + step.get("op"));
        }
        return null;
    }

    private KStream<Object, Object> source(JsonNode step) {
        if (step.hasNonNull("pattern")) {
            return builder.stream(Pattern.compile(step.get("pattern").asText()), Options.consumed(step));
        }
        List<String> topics = new ArrayList<>();
        step.get("topics").forEach(topic -> topics.add(topic.asText()));
        return builder.stream(topics, Options.consumed(step));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Object stream(JsonNode step, KStream<Object, Object> stream) {
        String fn = Options.text(step, "fn");
        Named named = Options.named(step);
        boolean withKey = step.path("args").asInt(1) == 2;
        switch (step.get("op").asText()) {
            case "map": {
                KeyValueMapper mapper = Functions.pairMapper(fn);
                return named == null ? stream.map(mapper) : stream.map(mapper, named);
            }
            case "flat_map": {
                KeyValueMapper mapper = Functions.flatMapper(fn);
                return named == null ? stream.flatMap(mapper) : stream.flatMap(mapper, named);
            }
            case "map_values":
                if (withKey) {
                    return named == null ? stream.mapValues(Functions.valueMapperWithKey(fn))
                        : stream.mapValues(Functions.valueMapperWithKey(fn), named);
                }
                return named == null ? stream.mapValues(Functions.valueMapper(fn))
                    : stream.mapValues(Functions.valueMapper(fn), named);
            case "flat_map_values":
                if (withKey) {
                    return named == null ? stream.flatMapValues((k, v) -> listOf(Functions.flatValueMapperWithKey(fn).apply(k, v)))
                        : stream.flatMapValues((k, v) -> listOf(Functions.flatValueMapperWithKey(fn).apply(k, v)), named);
                }
                return named == null ? stream.flatMapValues(v -> listOf(Functions.flatValueMapper(fn).apply(v)))
                    : stream.flatMapValues(v -> listOf(Functions.flatValueMapper(fn).apply(v)), named);
            case "peek":
                return named == null ? stream.peek((k, v) -> { }) : stream.peek((k, v) -> { }, named);
            case "foreach":
                if (named == null) {
                    stream.foreach((k, v) -> { });
                } else {
                    stream.foreach((k, v) -> { }, named);
                }
                return null;
            case "merge":
                return named == null ? stream.merge(of(step, "with")) : stream.merge(of(step, "with"), named);
            case "join":
            case "left_join":
            case "outer_join":
                return JoinSteps.stream(step, stream, of(step, "with"));
            case "split":
                split(step, named == null ? stream.split() : stream.split(named));
                return null;
            case "repartition":
                return stream.repartition(Options.repartitioned(step));
            case "process":
                return named == null ? stream.process(Processors.supplier(step), stores(step))
                    : stream.process(Processors.supplier(step), named, stores(step));
            case "process_values":
                return named == null ? stream.processValues(Processors.fixedKeySupplier(step), stores(step))
                    : stream.processValues(Processors.fixedKeySupplier(step), named, stores(step));
            case "group_by": {
                Grouped<Object, Object> grouped = Options.grouped(step);
                return grouped == null ? stream.groupBy(Functions.keySelector(fn))
                    : stream.groupBy(Functions.keySelector(fn), grouped);
            }
            case "group_by_key": {
                Grouped<Object, Object> grouped = Options.grouped(step);
                return grouped == null ? stream.groupByKey() : stream.groupByKey(grouped);
            }
            case "to_table": {
                Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized = Options.materialized(step);
                if (materialized == null) {
                    return named == null ? stream.toTable() : stream.toTable(named);
                }
                return named == null ? stream.toTable(materialized) : stream.toTable(named, materialized);
            }
            case "to":
                if (step.hasNonNull("extractor")) {
                    stream.to(Functions.topicExtractor(step.get("extractor").asText()), Options.produced(step));
                } else {
                    stream.to(step.get("topic").asText(), Options.produced(step));
                }
                return null;
            default:
                return OneFunction.call(KStream.class, stream, step, named);
        }
    }

    @SuppressWarnings("unchecked")
    private static Iterable<Object> listOf(Object items) {
        return (Iterable<Object>) items;
    }

    static String[] names(JsonNode step, String field) {
        List<String> names = new ArrayList<>();
        step.path(field).forEach(name -> names.add(name.asText()));
        return names.toArray(new String[0]);
    }

    private void split(JsonNode step, BranchedKStream<Object, Object> split) {
        for (JsonNode branch : step.get("branches")) {
            split = split.branch(Functions.predicate(branch.get("fn").asText()), branched(branch));
        }
        if (step.hasNonNull("default")) {
            split.defaultBranch(branched(step.get("default")));
        } else {
            split.noDefaultBranch();
        }
    }

    /** Keeps the branch under its id; whether it has a name is up to the program. */
    private Branched<Object, Object> branched(JsonNode branch) {
        java.util.function.Function<KStream<Object, Object>, KStream<Object, Object>> keep = stream -> {
            made.put(branch.get("id").asText(), stream);
            return stream;
        };
        return branch.hasNonNull("name") ? Branched.withFunction(keep, branch.get("name").asText())
            : Branched.withFunction(keep);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Object table(JsonNode step, KTable<Object, Object> table) {
        String fn = Options.text(step, "fn");
        Named named = Options.named(step);
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized = Options.materialized(step);
        boolean withKey = step.path("args").asInt(1) == 2;
        switch (step.get("op").asText()) {
            case "map_values":
                if (withKey) {
                    if (materialized == null) {
                        return named == null ? table.mapValues(Functions.valueMapperWithKey(fn))
                            : table.mapValues(Functions.valueMapperWithKey(fn), named);
                    }
                    return named == null ? table.mapValues(Functions.valueMapperWithKey(fn), materialized)
                        : table.mapValues(Functions.valueMapperWithKey(fn), named, materialized);
                }
                if (materialized == null) {
                    return named == null ? table.mapValues(Functions.valueMapper(fn))
                        : table.mapValues(Functions.valueMapper(fn), named);
                }
                return named == null ? table.mapValues(Functions.valueMapper(fn), materialized)
                    : table.mapValues(Functions.valueMapper(fn), named, materialized);
            case "join":
            case "left_join":
            case "outer_join":
                return JoinSteps.tables(step, table, of(step, "with"));
            case "suppress":
                return WindowSteps.suppress(step, table);
            case "transform_values":
                return transformValues(step, table);
            case "to_stream":
                if (fn != null) {
                    return named == null ? table.toStream(Functions.keySelector(fn))
                        : table.toStream(Functions.keySelector(fn), named);
                }
                return named == null ? table.toStream() : table.toStream(named);
            case "group_by": {
                KeyValueMapper mapper = Functions.pairMapper(fn);
                Grouped<Object, Object> grouped = Options.grouped(step);
                return grouped == null ? table.groupBy(mapper) : table.groupBy(mapper, grouped);
            }
            default:
                return OneFunction.call(KTable.class, table, step, named, materialized);
        }
    }

    /** Runs a value mapper with key as a transformer, so that only what is particular to transformValues differs. */
    private Object transformValues(JsonNode step, KTable<Object, Object> table) {
        Named named = Options.named(step);
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized = Options.materialized(step);
        ValueTransformerWithKeySupplier<Object, Object, Object> supplier =
            () -> new Transformer(Functions.valueMapperWithKey(step.get("fn").asText()), Options.text(step.path("stores"), 0));
        String[] stores = names(step, "stores");
        if (materialized == null) {
            return named == null ? table.transformValues(supplier, stores) : table.transformValues(supplier, named, stores);
        }
        return named == null ? table.transformValues(supplier, materialized, stores)
            : table.transformValues(supplier, materialized, named, stores);
    }

    /** With a store it counts its calls for each key. */
    private static final class Transformer implements ValueTransformerWithKey<Object, Object, Object> {
        private final ValueMapperWithKey<Object, Object, Object> mapper;
        private final String store;
        private KeyValueStore<Object, Object> calls;

        Transformer(ValueMapperWithKey<Object, Object, Object> mapper, String store) {
            this.mapper = mapper;
            this.store = store;
        }

        @Override
        public void init(ProcessorContext context) {
            calls = store == null ? null : context.getStateStore(store);
        }

        @Override
        public Object transform(Object key, Object value) {
            Object mapped = mapper.apply(key, value);
            if (calls == null) {
                return mapped;
            }
            long number = Functions.num(calls.get(key)) + 1;
            calls.put(key, number);
            return Functions.clip(Functions.text(mapped) + "#" + number);
        }

        @Override
        public void close() { }
    }

    private Object grouped(JsonNode step, KGroupedStream<Object, Object> grouped) {
        String fn = Options.text(step, "fn");
        if (step.get("op").asText().equals("windowed_by")) {
            return WindowSteps.windowedBy(step, grouped);
        }
        if (step.get("op").asText().equals("cogroup")) {
            return grouped.cogroup(Functions.aggregator(fn));
        }
        Named named = Options.named(step);
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized = Options.materialized(step);
        switch (step.get("op").asText()) {
            case "count": {
                @SuppressWarnings({"unchecked", "rawtypes"})
                Materialized<Object, Long, KeyValueStore<Bytes, byte[]>> counted = (Materialized) materialized;
                if (counted == null) {
                    return named == null ? grouped.count() : grouped.count(named);
                }
                return named == null ? grouped.count(counted) : grouped.count(named, counted);
            }
            case "reduce":
                if (materialized == null) {
                    return grouped.reduce(Functions.reducer(fn));
                }
                return named == null ? grouped.reduce(Functions.reducer(fn), materialized)
                    : grouped.reduce(Functions.reducer(fn), named, materialized);
            case "aggregate":
                if (materialized == null) {
                    return grouped.aggregate(Functions.initializer(step.get("init").asText()), Functions.aggregator(fn));
                }
                return named == null
                    ? grouped.aggregate(Functions.initializer(step.get("init").asText()), Functions.aggregator(fn), materialized)
                    : grouped.aggregate(Functions.initializer(step.get("init").asText()), Functions.aggregator(fn), named, materialized);
            default:
                throw new IllegalArgumentException("a grouped stream has no step " + step.get("op"));
        }
    }

    private Object groupedTable(JsonNode step, KGroupedTable<Object, Object> grouped) {
        String add = Options.text(step, "fn");
        String subtract = Options.text(step, "subtract");
        Named named = Options.named(step);
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> materialized = Options.materialized(step);
        switch (step.get("op").asText()) {
            case "count": {
                @SuppressWarnings({"unchecked", "rawtypes"})
                Materialized<Object, Long, KeyValueStore<Bytes, byte[]>> counted = (Materialized) materialized;
                if (counted == null) {
                    return named == null ? grouped.count() : grouped.count(named);
                }
                return named == null ? grouped.count(counted) : grouped.count(named, counted);
            }
            case "reduce":
                if (materialized == null) {
                    return grouped.reduce(Functions.reducer(add), Functions.reducer(subtract));
                }
                return named == null
                    ? grouped.reduce(Functions.reducer(add), Functions.reducer(subtract), materialized)
                    : grouped.reduce(Functions.reducer(add), Functions.reducer(subtract), named, materialized);
            case "aggregate": {
                var init = Functions.initializer(step.get("init").asText());
                if (materialized == null) {
                    return named == null
                        ? grouped.aggregate(init, Functions.aggregator(add), Functions.aggregator(subtract))
                        : grouped.aggregate(init, Functions.aggregator(add), Functions.aggregator(subtract), named);
                }
                return named == null
                    ? grouped.aggregate(init, Functions.aggregator(add), Functions.aggregator(subtract), materialized)
                    : grouped.aggregate(init, Functions.aggregator(add), Functions.aggregator(subtract), named, materialized);
            }
            default:
                throw new IllegalArgumentException("a grouped table has no step " + step.get("op"));
        }
    }
}
