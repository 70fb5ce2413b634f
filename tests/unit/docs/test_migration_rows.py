"""Each row of the page about Kafka Streams runs as it stands."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import create_autospec

import pytest

import streamsapp
from migration_rows import (
    CONFIGURATION,
    NAMES,
    PROCESSOR,
    RUNNING,
    TEST,
    TOPOLOGIES,
    Row,
    minute,
    number,
    prelude,
    rows,
    text,
)
from streamsapp import Stores, StreamsBuilder, StreamsConfig
from streamsapp.testing import TopologyTestDriver


def of(*tables: str) -> pytest.MarkDecorator:
    """Runs a test for each row of tables."""
    return pytest.mark.parametrize("row", [row for table in tables for row in rows(table)], ids=lambda row: row.python)


def test_there_are_rows_enough_and_each_of_the_page_is_one_of_a_table_that_is_run() -> None:
    tables = (*TOPOLOGIES, PROCESSOR, CONFIGURATION, RUNNING, TEST)
    assert sum(len(rows(table)) for table in tables) >= 60
    assert min(len(rows(table)) for table in tables) >= 9


@of(*TOPOLOGIES)
def test_a_row_of_a_topology_builds_one_that_runs(row: Row) -> None:
    names = dict(NAMES)
    exec(prelude("python"), names)  # noqa: S102 - our own page
    before = len([*names["builder"].build().nodes])
    eval(row.python, names)  # noqa: S307 - our own page
    topology = names["builder"].build()
    assert len([*topology.nodes]) > before or row.python.startswith("Stores.")
    with TopologyTestDriver(topology, StreamsConfig.from_properties(TEXT)) as driver:
        driver.create_input_topic("lines", text, text).pipe_input("a", "b", 1)


TEXT: dict[str, Any] = {
    "application.id": "rows",
    "bootstrap.servers": "none:9092",
    "default.key.serde": text,
    "default.value.serde": text,
}


def test_rows_of_a_processor_run_in_one() -> None:
    done: list[str] = []

    class Here(streamsapp.Processor):
        def init(self, context: streamsapp.ProcessorContext) -> None:
            self.context = context

        def process(self, record: streamsapp.Record) -> None:
            stores = {
                "store": self.context.get_state_store("store"),
                "windows": self.context.get_state_store("windows"),
            }
            for row in rows(PROCESSOR):
                result = eval(row.python, {**NAMES, **stores, "context": self.context, "record": record})  # noqa: S307
                if hasattr(result, "close"):
                    result.close()
                done.append(row.python)

    builder = StreamsBuilder()
    window = Stores.persistent_window_store("windows", timedelta(days=1), minute, False)
    builder.add_state_store(Stores.window_store_builder(window, text, number))
    kept = Stores.persistent_key_value_store("store")
    builder.add_state_store(Stores.key_value_store_builder(kept, text, number))
    builder.stream("in", streamsapp.Consumed(text, text)).process(Here, "store", "windows").to(
        "out", streamsapp.Produced(text, text)
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", text, text).pipe_input("a", "b", 1)
        assert driver.create_output_topic("out", text, text).read_record() == streamsapp.Record("a", "x", 5)
        driver.advance_wall_clock_time(minute)
    assert done == [row.python for row in rows(PROCESSOR)]


@of(CONFIGURATION)
def test_a_row_of_the_configuration_is_taken(row: Row) -> None:
    given = eval(f"dict({row.python})", dict(NAMES))  # noqa: S307 - our own page
    config = StreamsConfig(application_id="shop", bootstrap_servers="none:9092", **given)
    for name, value in given.items():
        assert getattr(config, name) == value


def counted() -> streamsapp.Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", streamsapp.Consumed(text, text)).group_by_key()
    grouped.windowed_by(streamsapp.TimeWindows.of(minute)).count(streamsapp.Materialized("per-minute"))
    grouped.windowed_by(streamsapp.SessionWindows.of(minute)).count(streamsapp.Materialized("sessions"))
    grouped.count(streamsapp.Materialized("counts")).to_stream().to("out", streamsapp.Produced(text, number))
    return builder.build()


def test_rows_of_a_test_are_one() -> None:
    names = NAMES | {"topology": counted()}
    results = {}
    for row in rows(TEST):
        name, _, expression = row.python.rpartition(" = ")
        results[row.python] = eval(expression, names)  # noqa: S307 - our own page
        if name:
            names[name] = results[row.python]
    assert results["sink.read_key_values()"] == [("a", 1), ("a", 2), ("b", 1)]
    assert results['driver.get_key_value_store("counts").get("a")'] == 2


@of(RUNNING)
def test_a_row_of_a_running_application_calls_what_an_instance_has(row: Row) -> None:
    streams = create_autospec(streamsapp.StreamsRuntime, instance=True)
    streams.query.return_value = streams.samples.return_value = ()
    names = NAMES | {"StreamsRuntime": create_autospec(streamsapp.StreamsRuntime), "streams": streams}
    eval(row.python.removeprefix("streams = "), names | {"topology": counted(), "config": None})  # noqa: S307
