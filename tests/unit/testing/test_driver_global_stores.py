"""Global stores in ``TopologyTestDriver``: filled by the test or by the topology, and read by every processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from driven import Drive, text
from streamsapp import (
    ProcessorContext,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
)
from streamsapp.dsl.options import Consumed
from streamsapp.errors import StateStoreError, TopologyError
from streamsapp.state.api import StoreBuilder, ValueAndTimestamp
from task_parts import Each, through


def countries() -> StoreBuilder:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store("countries"), text, text)


def named_after_countries(read: Callable[[Any, Any], Any]) -> Topology:
    """Codes of countries become what ``read(store, code)`` finds."""

    def look_up(context: ProcessorContext, record: Record) -> None:
        context.forward(record.with_value(read(context.get_state_store("countries"), record.value)))

    def keep(context: ProcessorContext, record: Record) -> None:
        if record.key is not None:
            context.get_state_store("countries").put(record.key, record.value)

    topology = through(look_up)
    return topology.add_global_store(countries(), "global-source", "countries", "global-node", lambda: Each(keep))


def test_every_processor_reads_a_global_store_without_being_connected(drive: Drive) -> None:
    it = drive(named_after_countries(lambda store, code: store.get(code)))
    fill = it.driver.create_input_topic("countries", text, text)

    it.input().pipe_input("k", "de")
    fill.pipe_input("de", "Germany", partition=1)
    it.input().pipe_input("k", "de")
    fill.pipe_input("de", None)
    it.input().pipe_input("k", "de")

    assert [record.value for record in it.output().read_records()] == [None, "Germany", None]
    assert it.driver.produced_topic_names == {"out"}


def test_a_test_can_write_a_global_store_for_processors_to_read(drive: Drive) -> None:
    it = drive(named_after_countries(lambda store, code: store.get(code)))
    it.driver.get_state_store("countries").put("de", "Germany")

    it.input().pipe_input("k", "de")

    assert it.output().read_value() == "Germany"


def test_a_processor_cannot_write_a_global_store(drive: Drive) -> None:
    it = drive(named_after_countries(lambda store, code: store.put(code, "mine")))

    with pytest.raises(StateStoreError, match="'countries' is filled from topic countries and read-only elsewhere"):
        it.input().pipe_input("k", "de")


def test_what_the_topology_writes_to_a_global_topic_fills_the_store(drive: Drive) -> None:
    topology = named_after_countries(lambda store, code: code)
    topology.add_sink("to-countries", "countries", "node", key_serializer=text, value_serializer=text)
    it = drive(topology)

    it.input().pipe_input("de", "Germany", 7)

    assert dict(it.driver.get_key_value_store("countries").all()) == {"de": "Germany"}


def test_a_topic_may_fill_a_global_store_and_match_the_pattern_of_a_source(drive: Drive) -> None:
    topology = named_after_countries(lambda store, code: store.get(code))
    topology.add_source("all", pattern="count.*", key_deserializer=text, value_deserializer=text)
    topology.add_sink("copy", "copies", "all", key_serializer=text, value_serializer=text)
    it = drive(topology)

    it.driver.create_input_topic("countries", text, text).pipe_input("de", "Germany")

    assert it.driver.create_output_topic("copies", text, text).read_value() == "Germany"
    assert it.driver.get_key_value_store("countries").get("de") == "Germany"


def test_a_topology_may_consist_of_a_global_table_only(drive: Drive) -> None:
    builder = StreamsBuilder()
    table = builder.global_table("countries", Consumed(text, text))
    it = drive(builder.build())
    fill = it.driver.create_input_topic("countries", text, text)

    fill.pipe_input("de", "Germany", 8)
    fill.pipe_input(None, "nowhere", 9)

    store = it.driver.get_state_store(table.queryable_store_name)
    assert list(store.all()) == [("de", ValueAndTimestamp("Germany", 8))]
    with pytest.raises(TopologyError, match="reads topic other; it reads: countries"):
        it.driver.create_input_topic("other", text, text)


def test_a_dead_letter_of_a_global_store_s_record_can_be_read_like_any_output(drive: Drive) -> None:
    it = drive(
        named_after_countries(lambda store, code: store.get(code)),
        deserialization_exception_handler="dead_letter",
        dead_letter_queue_topic="dead",
    )
    it.driver.create_input_topic("countries", Serdes.bytes(), Serdes.bytes()).pipe_input(b"de", b"\xff")

    (letter,) = it.driver.create_output_topic("dead", Serdes.bytes(), Serdes.bytes()).read_records()
    assert (letter.key, letter.value) == (b"de", b"\xff")
    assert ("__streams.errors.topic", b"countries") in letter.headers
    assert it.driver.get_key_value_store("countries").get("de") is None
