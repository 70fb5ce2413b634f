"""The examples run, without a broker, on the records that come with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamsapp import Serdes, StreamsConfig, Topology, Windowed
from streamsapp.cli.samples import samples_of
from streamsapp.manifest.entrypoint import read_app
from streamsapp.testing import TopologyTestDriver

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
TEXT, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json()
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def _modules_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(EXAMPLES):
            del sys.modules[name]


def example(name: str) -> Topology:
    return read_app(EXAMPLES / name / "streamsapp.yaml")[1]


@pytest.mark.parametrize("name", ["orders", "trips", "geocoding"])
def test_an_example_has_a_sample_for_each_topic_that_it_reads(name: str) -> None:
    topology, lines = example(name), (EXAMPLES / name / "samples.jsonl").read_text("utf-8").splitlines()
    config = StreamsConfig(application_id="a", bootstrap_servers="none:9092")
    written = {document.pop("topic"): document for document in map(json.loads, lines)}

    samples = samples_of(topology, config, EXAMPLES / name)

    assert {topic: json.loads(line) for topic, line in samples.items()} == written
    assert set(written) == {topic for sub in topology.sub_topologies() for source in sub.sources
                            for topic in source.topics if not topic.endswith("-repartition")}  # fmt: skip


def test_orders_are_named_and_big_spenders_told_once() -> None:
    with TopologyTestDriver(example("orders")) as driver:
        driver.create_input_topic("customers", TEXT, JSON).pipe_input("c1", {"name": "Jane"})
        orders = driver.create_input_topic("orders", TEXT, JSON)
        for at, (key, cents) in enumerate([("c1", 60_00), ("c2", 99_99), ("c1", 50_00), ("c1", 1)]):
            orders.pipe_input(key, {"item": "tea", "cents": cents}, timestamp_ms=at)
        named = driver.create_output_topic("named-orders", TEXT, JSON).read_key_values()
        told = driver.create_output_topic("big-spenders", TEXT, LONG).read_key_values()

    assert [(key, order["customer"]) for key, order in named] == [
        ("c1", "Jane"), ("c2", "unknown"), ("c1", "Jane"), ("c1", "Jane")
    ]  # fmt: skip
    assert told == [("c1", 110_00)]


def test_trips_are_counted_by_their_own_time() -> None:
    now = datetime(2023, 5, 1, 12, tzinfo=UTC)
    now_ms = int(now.timestamp() * 1000)
    started = [timedelta(hours=-3), timedelta(hours=-1), timedelta(hours=-1, minutes=5), timedelta(hours=1)]
    hour = now_ms - HOUR_MS
    with TopologyTestDriver(example("trips")) as driver:
        trips = driver.create_input_topic("trips", TEXT, JSON)
        for each in started:
            trip: dict[str, Any] = {"zone": "harbour", "started": (now + each).isoformat()}
            trips.pipe_input("t", trip, timestamp_ms=now_ms)
        key = Serdes.time_windowed(TEXT, HOUR_MS)
        counts = driver.create_output_topic("counts", key, LONG).read_key_values()

    assert counts == [
        (Windowed("harbour", hour - 2 * HOUR_MS, hour - HOUR_MS), 1),
        (Windowed("harbour", hour, hour + HOUR_MS), 1),
        (Windowed("harbour", hour, hour + HOUR_MS), 2),
    ]


def test_each_address_gets_its_place() -> None:
    with TopologyTestDriver(example("geocoding")) as driver:
        addresses = driver.create_input_topic("addresses", TEXT, TEXT)
        for number in range(150):
            addresses.pipe_input(f"a{number:03}", f"{number} Main Street")
        found = driver.create_output_topic("places", TEXT, TEXT).read_key_values()

    assert [key for key, _ in found] == [f"a{number:03}" for number in range(150)]
    assert all(place.count(",") == 1 for _, place in found)
