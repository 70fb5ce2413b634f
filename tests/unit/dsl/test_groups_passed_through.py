"""Groups that a row of a foreign-key join only passes through: the example of docs/spark.md."""

from __future__ import annotations

import pytest

from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, Topology
from streamsapp.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()


def topology() -> Topology:
    builder = StreamsBuilder()
    orders = builder.table("orders", Consumed(TEXT, TEXT), Materialized("orders", TEXT, TEXT))
    customers = builder.table("customers", Consumed(TEXT, TEXT), Materialized("customers", TEXT, TEXT))
    joined = orders.join(
        customers,
        lambda order: order.split()[0],
        lambda order, region: f"{region} {order.split()[1]}",
        materialized=Materialized("joined", TEXT, TEXT),
    )
    by_region = joined.group_by(lambda order, row: (row.split()[0], int(row.split()[1])), Grouped("by", TEXT, LONG))
    sums = by_region.aggregate(
        lambda: 0,
        lambda region, amount, total: total + amount,
        lambda region, amount, total: total - amount,
        materialized=Materialized("sums", TEXT, LONG),
    )
    sums.to_stream().to("sums", Produced(TEXT, LONG))
    return builder.build()


ORDER, NORTH, SOUTH = ("orders", "1", "c 10"), ("customers", "c", "north"), ("customers", "c", "south")


@pytest.mark.parametrize(
    ("records", "changes"),
    [
        ([NORTH, ORDER, SOUTH], [("north", 10), ("north", 0), ("south", 10)]),
        ([NORTH, SOUTH, ORDER], [("south", 10)]),
    ],
    ids=["the order first", "the move first"],
)
def test_a_group_stays_with_the_sum_0_where_a_row_has_passed_through_it(
    records: list[tuple[str, str, str]], changes: list[tuple[str, int]]
) -> None:
    with TopologyTestDriver(topology()) as driver:
        topics = {name: driver.create_input_topic(name, TEXT, TEXT) for name in ("orders", "customers")}
        for topic, key, value in records:
            topics[topic].pipe_input(key, value)
        results = driver.create_output_topic("sums", TEXT, LONG).read_key_values()
        assert results == changes
        with driver.get_key_value_store("sums").all() as entries:
            left = dict(entries)
    assert {region: total for region, total in left.items() if total} == {"south": 10}
