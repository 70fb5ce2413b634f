"""Prometheus' text of what the runtime measures, and of the process itself.

Called on a thread of the HTTP server for every scrape; holds no state between two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streamsapp.metrics.samples import MetricType, Sample

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Exporter:
    """Renders samples, with the process's memory, CPU and garbage collection beside them."""

    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(_Samples(samples))

    def render(self) -> bytes:
        """The text of ``/metrics``."""
        return generate_latest(self._registry)


class _Samples(Collector):
    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._samples = samples

    def describe(self) -> Iterable[Metric]:
        """Describes nothing in advance: without this, registering would ask a runtime that has not started."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Samples of one name make one family, wherever they come from."""
        families: dict[str, Metric] = {}
        for sample in self._samples():
            family = families.get(sample.name)
            if family is None:
                family = families[sample.name] = _family(sample)
            family.add_sample(sample.name + sample.suffix, dict(sample.labels), sample.value)
        yield from families.values()


def _family(sample: Sample) -> Metric:
    # The client writes a counter's ``_total`` itself.
    name = sample.name.removesuffix("_total") if sample.kind is MetricType.COUNTER else sample.name
    text = sample.name.removeprefix("kafka_").replace("_", " ")
    return Metric(name, f"Kafka Streams' {text}", sample.kind.value)
