"""``dsl_store_format="headers"`` (KIP-1285): stores of tables keep the headers of records, and changelogs have them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    KeyValueStore,
    KStream,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
)
from streamsapp.errors import ConfigError
from streamsapp.manifest import decode
from streamsapp.manifest.entrypoint import load_topology
from streamsapp.record import Headers
from streamsapp.state.api import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from streamsapp.testing import TopologyTestDriver
from streamsapp.topology.builder import Topology

TEXT = Serdes.string()
READ = Consumed(TEXT, TEXT)
FIRST: Headers = [("h", b"1"), ("h", None)]
LAST: Headers = [("h", b"2")]
SECOND = timedelta(seconds=1)


def _config(form: str = "headers") -> StreamsConfig:
    return StreamsConfig(application_id="app", bootstrap_servers="b:1", dsl_store_format=form)


Lines = KStream[str, str]


def _topology(build: Callable[[Lines, KTable[str, str]], Any]) -> Topology:
    builder = StreamsBuilder()
    rows: KTable[str, str] = builder.table("rows", READ, Materialized("rows"))
    build(builder.stream("lines", READ), rows)
    return builder.build()


def _longer(old: str, value: str) -> str:
    return old + value


KEPT: list[Callable[[Lines, Any], Any]] = [
    lambda lines, rows: lines.to_table(Materialized("s")),
    lambda lines, rows: lines.to_table(Materialized("s", store="memory")),
    lambda lines, rows: lines.group_by_key().reduce(_longer, Materialized("s")),
    lambda lines, rows: lines.group_by_key().count(Materialized("s")),
    lambda lines, rows: lines.group_by_key().aggregate(
        list, lambda key, value, all_: [*all_, value], Materialized("s", TEXT, Serdes.json())
    ),
    lambda lines, rows: lines.group_by(lambda key, value: key, Grouped(TEXT, TEXT)).count(Materialized("s")),
    lambda lines, rows: lines.to_table().map_values(str.upper, Materialized("s", value_serde=TEXT)),
    lambda lines, rows: lines.to_table().filter(lambda key, value: True, Materialized("s")),
    lambda lines, rows: lines.to_table().left_join(
        rows, lambda line, row: f"{line}{row}", Materialized("s", TEXT, TEXT)
    ),
    lambda lines, rows: (
        lines.to_table().group_by(lambda key, value: (key, value), Grouped(TEXT, TEXT)).count(Materialized("s"))
    ),
    lambda lines, rows: lines.group_by_key().windowed_by(TimeWindows.of(SECOND)).count(Materialized("s")),
    lambda lines, rows: lines.group_by_key().windowed_by(TimeWindows.of(SECOND)).reduce(_longer, Materialized("s")),
    lambda lines, rows: lines.group_by_key().windowed_by(SlidingWindows.of(SECOND)).count(Materialized("s")),
    lambda lines, rows: lines.group_by_key().windowed_by(SessionWindows.of(SECOND)).count(Materialized("s")),
]


@pytest.mark.parametrize("build", KEPT)
def test_the_changelog_of_a_table_has_the_headers_of_the_record_that_changed_it(
    build: Callable[[Lines, Any], Any],
) -> None:
    changelogs = {}
    for form in ("headers", "default"):
        with TopologyTestDriver(_topology(build), _config(form)) as driver:
            lines = driver.create_input_topic("lines", TEXT, TEXT)
            lines.pipe_input("k", "a", timestamp_ms=5, headers=FIRST)
            lines.pipe_input("k", "b", timestamp_ms=7, headers=LAST)
            changelog = driver.create_output_topic("app-s-changelog", Serdes.bytes(), Serdes.bytes())
            changelogs[form] = changelog.read_records()
    kept, plain = changelogs["headers"], changelogs["default"]
    assert [(each.key, each.value, each.timestamp) for each in kept] == [
        (each.key, each.value, each.timestamp) for each in plain
    ]
    assert {tuple(each.headers) for each in plain} == {()}
    assert (kept[0].headers, kept[-1].headers) == (FIRST, LAST)
    assert all(each.headers in (FIRST, LAST) for each in kept)


def test_processors_and_tests_read_headers_with_the_values_of_tables() -> None:
    seen: list[Any] = []

    class Reader(Processor):
        def init(self, context: ProcessorContext) -> None:
            self._rows = context.get_state_store("rows", KeyValueStore[str, ValueTimestampHeaders])

        def process(self, record: Record) -> None:
            seen.append(self._rows.get(record.key))

    def build(lines: Lines, rows: Any) -> None:
        lines.process(Reader, "rows")
        lines.group_by_key().windowed_by(SessionWindows.of(SECOND)).reduce(_longer, Materialized("sessions"))

    with TopologyTestDriver(_topology(build), _config()) as driver:
        driver.create_input_topic("rows", TEXT, TEXT).pipe_input("k", "row", timestamp_ms=3, headers=FIRST)
        driver.create_input_topic("lines", TEXT, TEXT).pipe_input("k", "a", timestamp_ms=5, headers=LAST)
        assert driver.get_key_value_store("rows").get("k") == "row"
        assert driver.get_state_store("rows").get("k") == ValueTimestampHeaders("row", 3, FIRST)
        ((_, session),) = driver.get_session_store("sessions").fetch("k")
    assert seen == [ValueTimestampHeaders("row", 3, FIRST)]
    assert session == AggregationWithHeaders("a", LAST)


def test_a_deletion_has_the_headers_of_the_record_that_deleted() -> None:
    with TopologyTestDriver(_topology(lambda lines, rows: None), _config()) as driver:
        rows = driver.create_input_topic("rows", TEXT, TEXT)
        rows.pipe_input("k", "row", timestamp_ms=3, headers=FIRST)
        rows.pipe_input("k", None, timestamp_ms=4, headers=LAST)
        rows.pipe_input("k", None, timestamp_ms=5)
        changelog = driver.create_output_topic("app-rows-changelog", TEXT, TEXT).read_records()
        assert driver.get_state_store("rows").get("k") is None
    assert [(each.value, each.timestamp, each.headers) for each in changelog] == [
        ("row", 3, FIRST),
        (None, 4, LAST),
        (None, 5, []),
    ]


def test_stores_that_a_program_adds_are_as_it_says() -> None:
    class Putting(Processor):
        def init(self, context: ProcessorContext) -> None:
            self._stores = [context.get_state_store(name) for name in ("plain", "headed")]

        def process(self, record: Record) -> None:
            self._stores[0].put(record.key, ValueAndTimestamp(record.value, 1))
            self._stores[1].put(record.key, ValueTimestampHeaders(record.value, 1, [*record.headers, ("x", b"y")]))

    def topology() -> Topology:
        builder = StreamsBuilder()
        persistent = Stores.persistent_timestamped_key_value_store
        builder.add_state_store(Stores.timestamped_key_value_store_builder(persistent("plain"), TEXT, TEXT))
        builder.add_state_store(
            Stores.timestamped_key_value_store_with_headers_builder(persistent("headed"), TEXT, TEXT)
        )
        builder.stream("lines", READ).process(Putting, "plain", "headed")
        return builder.build()

    for form in ("headers", "default"):
        with TopologyTestDriver(topology(), _config(form)) as driver:
            driver.create_input_topic("lines", TEXT, TEXT).pipe_input("k", "a", headers=LAST)
            written = [
                driver.create_output_topic(f"app-{name}-changelog", TEXT, TEXT).read_record().headers
                for name in ("plain", "headed")
            ]
        assert written == [[], [*LAST, ("x", b"y")]]


def test_a_global_table_keeps_headers() -> None:
    builder = StreamsBuilder()
    builder.global_table("codes", READ, Materialized("codes"))
    builder.stream("lines", READ).to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), _config()) as driver:
        driver.create_input_topic("codes", TEXT, TEXT).pipe_input("k", "v", timestamp_ms=3, headers=FIRST)
        assert driver.get_state_store("codes").get("k") == ValueTimestampHeaders("v", 3, FIRST)


def test_the_format_is_default_or_headers_and_kafka_streams_names_are_taken() -> None:
    with pytest.raises(ConfigError, match=r"^dsl_store_format: expected 'default' or 'headers', got 'plain'"):
        _config("plain")
    needed = {"application.id": "a", "bootstrap.servers": "b:1"}
    assert StreamsConfig.from_properties({**needed, "dsl.store.format": "HEADERS"}).dsl_store_format == "headers"
    assert StreamsConfig.from_properties({**needed, "dsl.store.format": "DEFAULT"}).dsl_store_format == "default"


def test_a_manifest_says_the_format_of_declared_tables(tmp_path: Path) -> None:
    text = {"keySerde": "string", "valueSerde": "string"}
    document = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "app"},
        "spec": {
            "topology": {"steps": [{"table": {"topic": "rows", "store": "rows", **text}}]},
            "processing": {"dslStoreFormat": "headers"},
        },
    }
    with TopologyTestDriver(load_topology(decode(document), tmp_path)) as driver:
        driver.create_input_topic("rows", TEXT, TEXT).pipe_input("k", "v", headers=FIRST)
        assert driver.get_state_store("rows").get("k").headers == FIRST
