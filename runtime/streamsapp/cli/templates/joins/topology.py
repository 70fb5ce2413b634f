"""Gives each order the name of its customer: a stream that is joined with a table."""

from typing import Any

from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder

text, json = Serdes.string(), Serdes.json()


def with_customer(order: dict[str, Any], customer: dict[str, Any] | None) -> dict[str, Any]:
    return {**order, "customer": None if customer is None else customer.get("name")}


builder = StreamsBuilder()
customers = builder.table("customers", Consumed(key_serde=text, value_serde=json), Materialized("customers"))
orders = builder.stream("orders", Consumed(key_serde=text, value_serde=json))
orders.left_join(customers, with_customer).to("named-orders", Produced(key_serde=text, value_serde=json))
topology = builder.build()
