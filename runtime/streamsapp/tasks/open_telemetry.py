"""Spans of OpenTelemetry: one for each record that a task processes, and one for each that it sends.

Imported by ``tracing`` where traces are wanted; called for every record on the processing thread that holds the task. A
span continues the trace that the headers of its record name (W3C Trace Context). The headers of sent records name the
trace that goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from opentelemetry import propagate, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from streamsapp.errors import ConfigError
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.operator import Push
from streamsapp.record import Headers
from streamsapp.tasks.task_context import TaskContext

#: The protocols of OTLP, with the names under which their exporters are installed.
_OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_EXPORTERS = "opentelemetry_traces_exporter"
#: Of the longest header that describes a trace, as W3C's Baggage limits it.
_LONGEST = 8_192


class OpenTelemetry:
    """The spans of one task."""

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._tracer = provider(context.application_id).get_tracer("streamsapp")
        self._common = {
            "messaging.system": "kafka",
            "messaging.consumer.group.name": context.application_id,
            "streamsapp.task": str(context.task_id),
        }

    def source(self, push: Push) -> Push:
        """Returns the function in whose span a record is pushed on. Spans that user code begins are below it."""
        context, tracer, common = self._context, self._tracer, self._common

        def traced(key: object, value: object, timestamp: int, headers: Headers | None) -> None:
            message, dropped = context.message, context.record_errors.dropped
            assert message is not None  # a source has nothing but records
            before = propagate.extract(_carried(headers))
            begun_by = trace.get_current_span(before).get_span_context()
            topic = message.topic()
            span = tracer.start_span(
                f"process {topic}",
                before,
                SpanKind.CONSUMER,
                {
                    **common,
                    "messaging.operation.type": "process",
                    "messaging.destination.name": topic,
                    "messaging.destination.partition.id": str(message.partition()),
                    "messaging.kafka.offset": message.offset(),
                },
                [Link(begun_by)] if begun_by.is_valid else None,
            )
            token = attach(trace.set_span_in_context(span, before))
            try:
                push(key, value, timestamp, headers)
            except BaseException as error:
                span.record_exception(error)
                span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
                raise
            finally:
                detach(token)
                if context.record_errors.dropped != dropped:
                    span.set_attribute("streamsapp.dropped", context.record_errors.dropped - dropped)
                span.end()

        return traced

    def emit(self, emit: Callable[[OutputRecord], None]) -> Callable[[OutputRecord], None]:
        """Returns the function that sends with the trace in the headers. Results of no record, which a commit or a
        punctuator sends, keep the headers that they have."""
        tracer, common, names = self._tracer, self._common, frozenset(propagate.get_global_textmap().fields)

        def traced(record: OutputRecord) -> None:
            current = trace.get_current_span()
            if not current.get_span_context().is_valid:
                emit(record)
                return
            topic, value, key, partition, _, _, timestamp, headers = record
            if current.is_recording():
                attributes = {**common, "messaging.operation.type": "send", "messaging.destination.name": topic}
                current = tracer.start_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes)
                current.end()  # the broker has it later, with the commit
            carrier: dict[str, str] = {}
            propagate.inject(carrier, trace.set_span_in_context(current))
            kept = [header for header in headers or () if header[0] not in names]
            sent = [*kept, *((name, text.encode()) for name, text in carrier.items())]
            emit((topic, value, key, partition, None, None, timestamp, sent))

        return traced


def _carried(headers: Headers | None) -> dict[str, str]:
    """Returns headers as text. Bytes that are no text are no trace; nor are bytes that are too long for one, which
    OpenTelemetry would log whole."""
    return {
        name: value.decode("ascii", "replace")
        for name, value in headers or ()
        if value is not None and len(value) <= _LONGEST
    }


@cache
def provider(application_id: str) -> trace.TracerProvider:
    """Returns the program's own provider, if it has set one, else a provider that the ``OTEL_*`` variables describe.
    Raises ``ConfigError`` for an exporter that is not there."""
    found = trace.get_tracer_provider()
    if not isinstance(found, trace.ProxyTracerProvider):
        return found
    named = "OTEL_SERVICE_NAME" in os.environ or SERVICE_NAME in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    made = TracerProvider(resource=Resource.create({} if named else {SERVICE_NAME: application_id}))
    for exporter in exporters():
        made.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(made)
    return made


def exporters() -> Iterator[SpanExporter]:
    for name in filter(None, map(str.strip, os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","))):
        if name != "none":
            yield _exporter(name).load()()


def _exporter(name: str) -> EntryPoint:
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    wanted = _OTLP.get(protocol or "http/protobuf", "otlp") if name == "otlp" else name
    there = {each.name: each for each in entry_points(group=_EXPORTERS)}
    if wanted not in there:
        known = ", ".join(sorted(there)) or "none"
        raise ConfigError(
            f"OTEL_TRACES_EXPORTER: no exporter {name!r} ({wanted}) is installed; there are: {known}; "
            "pip install 'streamsapp[tracing]' brings otlp over http/protobuf"
        )
    return there[wanted]
