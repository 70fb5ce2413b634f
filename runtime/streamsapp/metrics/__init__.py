"""Metrics: plain counters inside the runtime, Kafka Streams' names in Prometheus' form outside."""

from streamsapp.metrics.samples import HasSamples, Histogram, MetricType, Sample, counter, gauge, metric_name

__all__ = ["HasSamples", "Histogram", "MetricType", "Sample", "counter", "gauge", "metric_name"]
