"""Orders get their customer's name and are summed up by customer and hour; big spenders are reported once."""

from dataclasses import dataclass, replace
from datetime import timedelta

from streamsapp import (
    Consumed,
    Grouped,
    KeyValueStore,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    Windowed,
)

HOUR = timedelta(hours=1)
#: Cents in an hour from which a customer is reported.
MUCH = 100_00


@dataclass
class Customer:
    name: str


@dataclass
class Order:
    item: str
    cents: int
    customer: str = "unknown"


text, number = Serdes.string(), Serdes.long()
orders, customers = Serdes.json(Order), Serdes.json(Customer)


class TellOnce(Processor):
    """Forwards the first sum of a customer that is much; a store remembers who was told."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._told = context.get_state_store("told", KeyValueStore[str, int])

    def process(self, record: Record[Windowed[str], int]) -> None:
        customer = record.key.key
        if record.value >= MUCH and self._told.get(customer) is None:
            self._told.put(customer, record.timestamp)
            self._context.forward(Record(customer, record.value, record.timestamp))


def named(order: Order, customer: Customer | None) -> Order:
    return replace(order, customer="unknown" if customer is None else customer.name)


def topology() -> Topology:
    builder = StreamsBuilder()
    known = builder.table("customers", Consumed(text, customers), Materialized("customers"))
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("told"), text, number))
    complete = builder.stream("orders", Consumed(text, orders)).left_join(known, named)
    complete.to("named-orders", Produced(text, orders))
    (
        complete.map_values(lambda order: order.cents)
        .group_by_key(Grouped(text, number))
        .windowed_by(TimeWindows.of(HOUR, grace=timedelta(minutes=5)))
        .reduce(lambda sum_, cents: sum_ + cents, Materialized("spent-per-hour"))
        .to_stream()
        .process(TellOnce, "told")
        .to("big-spenders", Produced(text, number))
    )
    return builder.build()
