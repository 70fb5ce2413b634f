"""Waits 50 ms for each record with Faust, as its guide says: an agent, with concurrency or without.

Started by ``async_calls.py`` in a virtual environment of its own: ``faust_calls.py BROKERS SOURCE SINK CONCURRENCY``.
"""

from __future__ import annotations

import asyncio
import sys

import faust

WAIT = 0.05


def main(brokers: str, source: str, sink: str, concurrency: str) -> None:
    """Runs until it is killed."""
    app = faust.App(
        f"faust-{source}",
        broker=f"kafka://{brokers}",
        store="memory://",
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
    )
    raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
    asked, answers = (app.topic(name, partitions=1, **raw) for name in (source, sink))

    @app.agent(asked, concurrency=int(concurrency))
    async def ask(stream: faust.StreamT) -> None:
        async for event in stream.events():
            await asyncio.sleep(WAIT)
            await answers.send(key=event.key, value=event.value)

    sys.argv = [sys.argv[0], "worker", "-l", "warn", "--without-web"]
    app.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
