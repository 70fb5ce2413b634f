"""Names and the text that Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from streamsapp.metrics import Histogram, Sample, counter, gauge, metric_name
from streamsapp.metrics.prometheus import Exporter


def families(*samples: Sample) -> dict[str, dict[str, float]]:
    """Family name to ``name{labels}`` to value."""
    text = Exporter(lambda: samples).render().decode()
    return {
        family.name: {f"{s.name}{sorted(s.labels.items())}": s.value for s in family.samples}
        for family in text_string_to_metric_families(text)
    }


def test_names_are_those_of_the_dashboards() -> None:
    assert metric_name("stream-metrics", "client-state") == "kafka_stream_client_state"
    assert metric_name("stream-task-metrics", "process-total") == "kafka_stream_task_process_total"
    assert metric_name("stream-processor-node-metrics", "process-rate") == "kafka_stream_processor_node_process_rate"


def test_samples_of_one_name_from_several_places_make_one_family() -> None:
    samples = (
        counter("stream-task-metrics", "process", 5, thread_id="t", task_id="0_0"),
        gauge("stream-thread-metrics", "alive", 1, thread_id="t"),
        counter("stream-task-metrics", "process", 7, thread_id="t", task_id="0_1"),
    )
    assert families(*samples)["kafka_stream_task_process"] == {
        "kafka_stream_task_process_total[('task_id', '0_0'), ('thread_id', 't')]": 5,
        "kafka_stream_task_process_total[('task_id', '0_1'), ('thread_id', 't')]": 7,
    }


def test_a_histogram_counts_up_to_each_bound() -> None:
    latency = Histogram()
    for seconds in (0.001, 0.002, 100.0):
        latency.observe(seconds)
    found = families(*latency.samples("stream-thread-metrics", "commit-latency", thread_id="t"))
    values = found["kafka_stream_thread_commit_latency_seconds"]
    name = "kafka_stream_thread_commit_latency_seconds"
    assert values[f"{name}_bucket[('le', '0.0005'), ('thread_id', 't')]"] == 0
    assert values[f"{name}_bucket[('le', '0.001'), ('thread_id', 't')]"] == 1
    assert values[f"{name}_bucket[('le', '30.0'), ('thread_id', 't')]"] == 2
    assert values[f"{name}_bucket[('le', '+Inf'), ('thread_id', 't')]"] == 3
    assert values[f"{name}_count[('thread_id', 't')]"] == 3
    assert values[f"{name}_sum[('thread_id', 't')]"] == 100.003


def test_labels_with_quotes_and_line_ends_survive() -> None:
    awkward = 'a"b\\c\nd'
    text = Exporter(lambda: [gauge("stream-metrics", "x", 1, topic=awkward)]).render().decode()
    read = [s.labels for f in text_string_to_metric_families(text) if f.name == "kafka_stream_x" for s in f.samples]
    assert read == [{"topic": awkward}]


def test_nothing_is_asked_before_the_first_scrape() -> None:
    asked: list[int] = []
    exporter = Exporter(lambda: asked.append(1) or [])  # type: ignore[func-returns-value]
    assert asked == []
    exporter.render()
    assert asked == [1]
