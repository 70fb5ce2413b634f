"""Traces through headers: which spans there are, how they hang together, and that nothing is there unless wanted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from streamsapp import (
    KGroupedStream,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from streamsapp.errors import ConfigError
from streamsapp.record import Headers
from streamsapp.tasks import open_telemetry
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OTHERS: Headers = [("color", b"red"), ("broken", b"\xff"), ("no", None)]
GIVEN: Headers = [*OTHERS, ("traceparent", f"00-{TRACE}-{PARENT}-01".encode())]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans that were made, by a provider of this test alone."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(open_telemetry, "provider", lambda application_id: provider)
    yield exporter
    provider.shutdown()


def piped(topology: Topology, headers: Headers | None, **settings: Any) -> list[Record]:
    """Returns the records in ``out`` for one record in ``in``."""
    settings = {"tracing": True, "default_key_serde": TEXT, "default_value_serde": TEXT, **settings}
    config = StreamsConfig(application_id="app", bootstrap_servers="unused:1", **settings)
    with TopologyTestDriver(topology, config) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v", headers=headers)
        return driver.create_output_topic("out", TEXT, TEXT).read_records()


def through(mapper: Callable[[str], str] = str.upper) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").map_values(mapper).to("out")
    return builder.build()


def named(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


def traceparent(record: Record) -> str:
    (found,) = [value for name, value in record.headers if name == "traceparent"]
    assert found is not None
    return found.decode()


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def test_a_record_continues_the_trace_of_its_headers_and_what_it_leads_to_names_it(
    spans: InMemorySpanExporter,
) -> None:
    (out,) = piped(through(), GIVEN)

    process, send = named(spans)["process in"], named(spans)["send out"]
    assert (process.kind, send.kind) == (SpanKind.CONSUMER, SpanKind.PRODUCER)
    assert f"{process.context.trace_id:032x}" == f"{send.context.trace_id:032x}" == TRACE
    assert f"{parent_of(process):016x}" == PARENT
    assert [f"{link.context.span_id:016x}" for link in process.links] == [PARENT]
    assert parent_of(send) == process.context.span_id
    found = dict(process.attributes or {})
    assert (found["messaging.kafka.offset"], found["messaging.destination.partition.id"]) == (0, "0")
    assert found["streamsapp.task"] == "0_0"
    assert out.headers == [*OTHERS, ("traceparent", f"00-{TRACE}-{send.context.span_id:016x}-01".encode())]


def test_a_trace_goes_on_behind_a_repartition_topic(spans: InMemorySpanExporter) -> None:
    builder = StreamsBuilder()
    words: KGroupedStream[str, str] = builder.stream("in").group_by(lambda key, value: value)
    words.count(Materialized("counts")).to_stream().map_values(str).to("out", Produced(TEXT, TEXT))

    (out,) = piped(builder.build(), None)

    by_id = {span.context.span_id: span for span in spans.get_finished_spans()}
    at = by_id[int(traceparent(out).split("-")[2], 16)]
    way = [at.name]
    while (before := parent_of(at)) is not None:
        at = by_id[before]
        way.append(at.name)
    repartition = "app-counts-repartition"
    assert way == ["send out", f"process {repartition}", f"send {repartition}", "process in"]


def test_spans_of_user_code_are_below_that_of_its_record(spans: InMemorySpanExporter) -> None:
    def asks(value: str) -> str:
        with trace.get_tracer("mine", tracer_provider=open_telemetry.provider("app")).start_as_current_span("asks"):
            return value

    piped(through(asks), None)

    assert parent_of(named(spans)["asks"]) == named(spans)["process in"].context.span_id


@pytest.mark.parametrize("value", [b"nonsense", b"\xff\xfe", None, b"00-0-0-01"])
def test_headers_that_are_no_trace_begin_a_new_one(value: bytes | None, spans: InMemorySpanExporter) -> None:
    (out,) = piped(through(), [("traceparent", value)])

    process = named(spans)["process in"]
    assert (process.parent, process.links) == (None, ())
    assert f"{process.context.trace_id:032x}" in traceparent(out)


def test_a_header_that_is_too_long_for_a_trace_is_not_looked_at(
    spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    (out,) = piped(through(), [*GIVEN, ("baggage", b"x" * 1_000_000)])

    assert traceparent(out).split("-")[1] == TRACE
    assert "xxx" not in caplog.text


def fails(value: str) -> str:
    raise ValueError(value)


def test_what_stops_the_task_and_what_a_handler_drops_is_seen(spans: InMemorySpanExporter) -> None:
    with pytest.raises(Exception, match="ValueError"):
        piped(through(fails), None)
    assert named(spans)["process in"].status.status_code is StatusCode.ERROR

    spans.clear()
    assert piped(through(fails), None, processing_exception_handler="continue") == []
    dropped = named(spans)["process in"]
    assert dropped.attributes is not None
    assert (dropped.attributes["streamsapp.dropped"], dropped.status.status_code) == (1, StatusCode.UNSET)


class Late(Processor):
    """Sends nothing for a record, and one when time has passed."""

    def init(self, context: ProcessorContext) -> None:
        later: Record = Record("k", "late", 0)
        context.schedule(1, PunctuationType.WALL_CLOCK_TIME, lambda now: context.forward(later))

    def process(self, record: Record) -> None:
        pass


def test_what_belongs_to_no_record_is_in_no_trace(spans: InMemorySpanExporter) -> None:
    builder = StreamsBuilder()
    builder.stream("in").process(Late).to("out", Produced(TEXT, TEXT))
    config = StreamsConfig(application_id="app", bootstrap_servers="unused:1", tracing=True)
    with TopologyTestDriver(builder.build(), config) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v")
        driver.advance_wall_clock_time(10)
        (out,) = driver.create_output_topic("out", TEXT, TEXT).read_records()

    assert (out.value, out.headers) == ("late", [])
    assert named(spans).keys() == {"process in"}


def test_headers_stay_as_they_are_unless_traces_are_wanted(spans: InMemorySpanExporter) -> None:
    (out,) = piped(through(), GIVEN, tracing=False)

    assert out.headers == GIVEN
    assert spans.get_finished_spans() == ()


def test_nothing_of_open_telemetry_is_imported_unless_it_is_wanted() -> None:
    code = "import streamsapp.tasks.assembly, streamsapp.testing, sys; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_environment_names_the_exporters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console, none")
    assert [type(each).__name__ for each in open_telemetry.exporters()] == ["ConsoleSpanExporter"]
    monkeypatch.delenv("OTEL_TRACES_EXPORTER")
    assert [type(each).__name__ for each in open_telemetry.exporters()] == ["OTLPSpanExporter"]
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkins")
    with pytest.raises(ConfigError, match=r"OTEL_TRACES_EXPORTER: no exporter 'zipkins'.*there are: console, otlp"):
        list(open_telemetry.exporters())


def test_a_setting_that_is_no_truth_and_a_package_that_lacks_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="tracing: expected True or False, got 'yes'"):
        piped(through(), None, tracing="yes")
    monkeypatch.setitem(sys.modules, "streamsapp.tasks.open_telemetry", None)
    with pytest.raises(ConfigError, match=r"tracing: .* is not installed: pip install 'streamsapp\[tracing\]'"):
        piped(through(), None)
