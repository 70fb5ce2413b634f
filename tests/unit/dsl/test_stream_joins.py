"""Joins of two streams as they are built: refusals, co-partitioning, and cases without a counterpart elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    JoinWindows,
    Produced,
    Repartitioned,
    Serdes,
    Stores,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
)
from streamsapp.dsl.kstream import KStream
from streamsapp.errors import TopicError, TopologyError
from streamsapp.state.api import Engine
from streamsapp.testing import TopologyTestDriver
from streamsapp.topology.partitioning import partition_counts

TEXT = Serdes.string()
WINDOWS = JoinWindows.of(10)
RETENTION_MS = 10 + 10 + 24 * 60 * 60 * 1000


def streams(builder: StreamsBuilder) -> tuple[KStream[str, str], KStream[str, str]]:
    return builder.stream("orders", Consumed(TEXT, TEXT)), builder.stream("payments", Consumed(TEXT, TEXT))


def both(left: str | None, right: str | None) -> str:
    return f"{left}/{right}"


def results(driver: TopologyTestDriver) -> list[Any]:
    return [record.value for record in driver.create_output_topic("out", TEXT, TEXT).read_records()]


@pytest.mark.parametrize("operation", ["join", "left_join", "outer_join", "join_prior"])
def test_topics_that_are_joined_have_equally_many_partitions(operation: str) -> None:
    builder = StreamsBuilder()
    orders, payments = streams(builder)
    getattr(orders, operation)(payments, both, WINDOWS)
    with pytest.raises(
        TopicError, match=r"\(orders: 2, payments: 3\).*recreate those that do not have 3 .*Repartitioned"
    ):
        partition_counts(builder.build().sub_topologies(), "app", {"orders": 2, "payments": 3})


def test_a_repartition_topic_gets_the_partitions_of_what_it_is_joined_with() -> None:
    builder = StreamsBuilder()
    orders, payments = streams(builder)
    orders.select_key(lambda key, value: value).join(payments, both, WINDOWS)
    counts = partition_counts(builder.build().sub_topologies(), "app", {"orders": 2, "payments": 3})
    assert set(counts.values()) == {2, 3}
    assert counts["app-KSTREAM-KEY-SELECT-0000000002-repartition"] == 3


def test_the_test_driver_refuses_repartition_topics_that_were_given_different_partitions() -> None:
    builder = StreamsBuilder()
    orders, payments = streams(builder)
    one = orders.repartition(Repartitioned("one", TEXT, TEXT, partitions=2))
    two = payments.repartition(Repartitioned("two", TEXT, TEXT, partitions=3))
    one.join(two, both, WINDOWS).to("out", Produced(TEXT, TEXT))
    with pytest.raises(TopologyError, match="one-repartition: 2, two-repartition: 3; give the same partitions"):
        TopologyTestDriver(builder.build())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("text", both, WINDOWS), "KStream"),
        ((None, both, WINDOWS), "KStream"),
        (("other", both, 10), r"needs JoinWindows, not 10"),
        (("other", lambda value: value, WINDOWS), "does not take that"),
        (("elsewhere", both, WINDOWS), "another StreamsBuilder"),
    ],
)
def test_what_cannot_be_joined_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    orders, payments = streams(StreamsBuilder())
    given = {"other": payments, "elsewhere": streams(StreamsBuilder())[1]}
    with pytest.raises(TopologyError, match=message):
        orders.outer_join(given.get(arguments[0], arguments[0]), *arguments[1:])


def test_what_supplies_no_stores_for_a_join_is_refused() -> None:
    supplier = Stores.in_memory_window_store("kept", 20, 20, retain_duplicates=True)
    keyed: Any = Stores.in_memory_key_value_store("kept")
    for side in ("this_store_supplier", "other_store_supplier"):
        with pytest.raises(TopologyError, match=rf"^StreamJoined\({side}=.*make it with Stores.persistent_window"):
            replace(StreamJoined(), **{side: keyed})
    with pytest.raises(TopologyError, match="name their store 'kept'; give each a name of its own"):
        StreamJoined(this_store_supplier=supplier, other_store_supplier=replace(supplier, engine=Engine.ROCKSDB))


def test_changelogs_of_joins_have_kafka_streams_topic_settings() -> None:
    builder = StreamsBuilder()
    orders, payments = streams(builder)
    orders.left_join(payments, both, WINDOWS)
    stores = {store.name: store for store in builder.build().sub_topologies()[0].stores}
    settings = {name: dict(store.type.changelog_settings) for name, store in stores.items()}
    kept = {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)}
    assert settings == {
        "KSTREAM-JOINTHIS-0000000004-store": kept,
        "KSTREAM-OUTEROTHER-0000000005-store": kept,
        "KSTREAM-OUTERSHARED-0000000004-store": {},
    }


def test_values_of_a_join_without_serdes_have_the_configured_ones() -> None:
    builder = StreamsBuilder()
    left: KStream[str, str] = builder.stream("orders")
    left.left_join(builder.stream("payments"), both, WINDOWS).to("out")
    config = StreamsConfig(
        application_id="app", bootstrap_servers="none:1", default_key_serde=TEXT, default_value_serde=TEXT
    )
    with TopologyTestDriver(builder.build(), config) as driver:
        orders = driver.create_input_topic("orders", TEXT, TEXT)
        orders.pipe_input("a", "1", 5)
        orders.pipe_input("a", "2", 50)
        assert results(driver) == ["1/None"]


def test_prior_records_are_joined_and_no_later_ones() -> None:
    builder = StreamsBuilder()
    orders, payments = streams(builder)
    orders.join_prior(payments, both, WINDOWS).to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        left, right = (driver.create_input_topic(name, TEXT, TEXT) for name in ("orders", "payments"))
        left.pipe_input("k", "l0", 0)
        right.pipe_input("k", "r0", 0)
        left.pipe_input("k", "l20", 20)
        right.pipe_input("k", "r20", 20)
        right.pipe_input("k", "r25", 25)
        right.pipe_input("k", "r15", 15)
        left.pipe_input("k", "l24", 24)
        assert results(driver) == ["l20/r25", "l24/r15", "l24/r20"]
