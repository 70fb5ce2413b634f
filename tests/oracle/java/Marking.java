import java.nio.charset.StandardCharsets;
import java.util.Set;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.ProcessorWrapper;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.WrappedFixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.WrappedProcessorSupplier;
import org.apache.kafka.streams.state.StoreBuilder;

/** A wrapper of processors that notes each node in a header of the records that come to it ({@code processor.wrapper.class}). */
public final class Marking implements ProcessorWrapper {
    private static Headers marked(Headers headers, String name) {
        return new RecordHeaders(headers.toArray()).add("node", name.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public <KIn, VIn, KOut, VOut> WrappedProcessorSupplier<KIn, VIn, KOut, VOut> wrapProcessorSupplier(
            String name, ProcessorSupplier<KIn, VIn, KOut, VOut> supplier) {
        return new WrappedProcessorSupplier<>() {
            @Override
            public Processor<KIn, VIn, KOut, VOut> get() {
                Processor<KIn, VIn, KOut, VOut> inner = supplier.get();
                return new Processor<>() {
                    @Override
                    public void init(ProcessorContext<KOut, VOut> context) {
                        inner.init(context);
                    }

                    @Override
                    public void process(Record<KIn, VIn> record) {
                        inner.process(record.withHeaders(marked(record.headers(), name)));
                    }

                    @Override
                    public void close() {
                        inner.close();
                    }
                };
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return supplier.stores();
            }
        };
    }

    @Override
    public <KIn, VIn, VOut> WrappedFixedKeyProcessorSupplier<KIn, VIn, VOut> wrapFixedKeyProcessorSupplier(
            String name, FixedKeyProcessorSupplier<KIn, VIn, VOut> supplier) {
        return new WrappedFixedKeyProcessorSupplier<>() {
            @Override
            public FixedKeyProcessor<KIn, VIn, VOut> get() {
                FixedKeyProcessor<KIn, VIn, VOut> inner = supplier.get();
                return new FixedKeyProcessor<>() {
                    @Override
                    public void init(FixedKeyProcessorContext<KIn, VOut> context) {
                        inner.init(context);
                    }

                    @Override
                    public void process(FixedKeyRecord<KIn, VIn> record) {
                        inner.process(record.withHeaders(marked(record.headers(), name)));
                    }

                    @Override
                    public void close() {
                        inner.close();
                    }
                };
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return supplier.stores();
            }
        };
    }
}
