"""Asks a slow service about each address with coroutines, many at a time: addresses wait in a store until they have an
answer, so that none is lost when the process dies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from streamsapp import Consumed, Produced, Serdes, StreamsBuilder, Topology

#: Addresses that a task asks about at the same time.
AT_ONCE = 100

text = Serdes.string()


class Service:
    """Stands for the session of an HTTP client that knows asyncio."""

    async def place_of(self, address: str) -> str:
        await asyncio.sleep(0.01)
        return f"{len(address) % 90}.0,{sum(address.encode()) % 180}.0"


@asynccontextmanager
async def service() -> AsyncIterator[Service]:
    """Opens what all calls of an instance share. A client's connections are closed behind the ``yield``."""
    yield Service()


async def geocode(service: Service, address: str) -> str:
    return await service.place_of(address)


def topology() -> Topology:
    builder = StreamsBuilder()
    addresses = builder.stream("addresses", Consumed(text, text))
    places = addresses.map_async(geocode, AT_ONCE, timeout=timedelta(seconds=5), retries=3, using=service)
    places.to("places", Produced(text, text))
    return builder.build()
