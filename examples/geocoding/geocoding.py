"""Asks a slow service about each address with coroutines, many at a time: addresses wait in a store until they have an
answer, so that none is lost when the process dies."""

import asyncio
from itertools import islice

from streamsapp import (
    Consumed,
    KeyValueStore,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
)

#: Addresses that are asked about together.
AT_ONCE = 100

text = Serdes.string()


async def ask(address: str) -> str:
    """Stands for a call of an HTTP client that knows asyncio."""
    await asyncio.sleep(0.01)
    return f"{len(address) % 90}.0,{sum(address.encode()) % 180}.0"


class Geocode(Processor):
    """Keeps addresses, and asks about the collected ones ten times a second."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._waiting = context.get_state_store("waiting", KeyValueStore[str, str])
        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, self._answer)

    def process(self, record: Record[str, str]) -> None:
        self._waiting.put(record.key, record.value)

    def _answer(self, now_ms: int) -> None:
        batch = list(islice(self._waiting.all(), AT_ONCE))
        if not batch:
            return
        for (key, _), place in zip(batch, asyncio.run(self._ask_all([address for _, address in batch])), strict=True):
            self._context.forward(Record(key, place, now_ms))
            self._waiting.delete(key)

    @staticmethod
    async def _ask_all(addresses: list[str]) -> list[str]:
        return await asyncio.gather(*map(ask, addresses))


def topology() -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("waiting"), text, text))
    addresses = builder.stream("addresses", Consumed(text, text))
    addresses.process_values(Geocode, "waiting").to("places", Produced(text, text))
    return builder.build()
