"""A slow HTTP service that counts its calls and fails some, and a client of it for a coroutine function.

The service runs on a thread of the test's process, the client in an instance.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Literal

#: It is answered with 503, or its connection is closed, or it has no answer.
Failure = Literal["refuses", "closes", "hangs"]
#: Seconds without an answer: more than any client waits for.
_LONG = 600.0


class SlowService:
    """Answers ``GET /text`` with the text in capitals, after a while. Use it as a context manager."""

    def __init__(self, seconds: float, fails: Callable[[str, int], Failure | None] = lambda text, times: None) -> None:
        """``fails`` says whether and how a call for a text fails, which was made so many times by then."""
        self._seconds = seconds
        self._fails = fails
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        #: Calls by text, and how many are under way that are going to be answered.
        self.calls: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.port = 0
        self._server: asyncio.Server | None = None

    def __enter__(self) -> SlowService:
        self._thread.start()
        serving = asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1000)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        served = asyncio.all_tasks() - {asyncio.current_task()}
        for each in served:
            each.cancel()
        await asyncio.gather(*served, return_exceptions=True)
        await asyncio.sleep(0)  # transports that were closed end in the next turn

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                text = line.decode().split()[1].removeprefix("/")
                while (await reader.readline()).strip():
                    pass
                answer = await self._answer(text)
                if answer is None:
                    return
                writer.write(answer)
        finally:
            writer.close()

    async def _answer(self, text: str) -> bytes | None:
        """The answer; ``None`` for a connection that is closed instead."""
        self.calls[text] += 1
        failure = self._fails(text, self.calls[text])
        if failure == "hangs":
            await asyncio.sleep(_LONG)
            return None
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self._seconds)
        self.at_once -= 1
        if failure == "closes":
            return None
        status = "503 Busy" if failure == "refuses" else "200 OK"
        body = text.upper().encode()
        return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Connections:
    """Connections to a service, each used by one call at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, text: str) -> str:
        connection = self._free.pop() if self._free else await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = connection
        try:
            writer.write(f"GET /{text} HTTP/1.1\r\nHost: service\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            body = await reader.readexactly(int(head.partition("Content-Length: ")[2].split()[0]))
        except BaseException:
            writer.close()
            raise
        self._free.append(connection)
        if " 200 " not in head:
            raise ConnectionError(head.splitlines()[0])
        return body.decode()

    def close(self) -> None:
        for _, writer in self._free:
            writer.close()


def connections(port: int) -> Callable[[], AbstractAsyncContextManager[Connections]]:
    """Makes what ``using`` of a ``map_async`` takes."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Connections]:
        pool = Connections(port)
        try:
            yield pool
        finally:
            pool.close()

    return opened


async def ask(connections: Connections, text: str) -> str:
    """The coroutine function of a ``map_async``."""
    return await connections.ask(text)
