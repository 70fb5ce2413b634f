"""Samples of the runtime's metrics, and their names.

Components keep plain integers and :class:`Histogram` s on the objects they already have, written by the one thread that
owns the object, and offer ``samples()``. Nothing is registered and nothing is paid until a client reads ``/metrics``,
on a thread of the HTTP server.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import Protocol

#: Seconds. From a fast commit to a hanging processor.
LATENCY_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class MetricType(Enum):
    """Prometheus' types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value. The parts of a histogram append ``suffix`` to the name of their family."""

    name: str
    labels: Mapping[str, str]
    value: float
    kind: MetricType
    suffix: str = ""


class HasSamples(Protocol):
    """Anything that can be measured."""

    def samples(self) -> Iterable[Sample]: ...


def metric_name(group: str, metric: str) -> str:
    """Kafka Streams' group and metric as Prometheus writes them.

    ``("stream-task-metrics", "process-total")`` is ``kafka_stream_task_process_total``.
    """
    return f"kafka_{group.removesuffix('-metrics')}_{metric}".replace("-", "_")


def counter(group: str, metric: str, value: float, **tags: str) -> Sample:
    """Returns the samples of a number that only grows; ``metric`` is named without ``-total``, as in ``process``."""
    return Sample(metric_name(group, f"{metric}-total"), tags, value, MetricType.COUNTER)


def gauge(group: str, metric: str, value: float, **tags: str) -> Sample:
    """Returns the samples of a number that goes up and down."""
    return Sample(metric_name(group, metric), tags, value, MetricType.GAUGE)


class Histogram:
    """Counts durations in seconds. One thread writes it; a reader may see a count one behind the sum."""

    __slots__ = ("_counts", "sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(LATENCY_BOUNDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(LATENCY_BOUNDS, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        """The number of durations."""
        return sum(self._counts)

    def samples(self, group: str, metric: str, **tags: str) -> Iterator[Sample]:
        """``metric`` is named without its unit, as in ``commit-latency``."""
        name = metric_name(group, f"{metric}-seconds")
        upto = list(accumulate(self._counts))
        for bound, count in zip((*map(str, LATENCY_BOUNDS), "+Inf"), upto, strict=True):
            yield Sample(name, {**tags, "le": bound}, count, MetricType.HISTOGRAM, "_bucket")
        yield Sample(name, tags, upto[-1], MetricType.HISTOGRAM, "_count")
        yield Sample(name, tags, self.sum, MetricType.HISTOGRAM, "_sum")
