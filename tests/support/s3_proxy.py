"""A proxy in front of a real S3 server, which delays, refuses or damages answers as a test wants it.

It reads HTTP, one request at a time on each connection, on one thread of its own. Methods may be called on any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

_HOST = "127.0.0.1"
_CHUNK = 1 << 16
_END = b"\r\n\r\n"
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"

#: Says whether something happens to a request: ``GET /bucket/key``.
Chosen = Callable[[str], bool]


def never(request: str) -> bool:
    """No request."""
    return False


class PartsOfTables:
    """Chooses requests for parts of tables, once the end of each table was asked for, and so many more."""

    def __init__(self, but: int = 0) -> None:
        self._left = but
        self._begun: set[str] = set()
        #: The requests that were chosen.
        self.chosen = 0

    def __call__(self, request: str) -> bool:
        if not (request.startswith("GET ") and ".sst" in request):
            return False
        if request not in self._begun:
            self._begun.add(request)
            return False
        self._left -= 1
        self.chosen += self._left < 0
        return self._left < 0


class S3Proxy:
    """One way to a server. As a context manager it is closed on exit."""

    def __init__(self, target: int) -> None:
        self._target = target
        #: Seconds that each answer comes later.
        self.delay = 0.0
        #: Requests that are refused with 503 SlowDown, and requests whose answers have a wrong byte.
        self.throttles: Chosen = never
        self.damages: Chosen = never
        #: Connections are closed instead of answered.
        self.away = False
        #: The requests so far, as ``GET /bucket/key``.
        self.requests: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="s3-proxy", daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._connected, _HOST, 0, limit=1 << 20)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        self.endpoint = f"http://{_HOST}:{self._server.sockets[0].getsockname()[1]}"

    def __enter__(self) -> S3Proxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        there, back = await asyncio.open_connection(_HOST, self._target)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while await self._answered(reader, writer, there, back):
                    pass
        finally:
            back.transport.abort()
            writer.transport.abort()

    async def _answered(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> bool:
        """Answers one request; says whether the connection goes on."""
        head = await reader.readuntil(_END)
        fields = _fields(head)
        if fields.get("expect"):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:"))
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        method, path = head.decode("latin-1").split(" ", 2)[:2]
        request = f"{method} {path}"
        self.requests.append(request)
        await asyncio.sleep(self.delay)
        if self.away:
            return False
        if self.throttles(request):
            writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: %d\r\n\r\n" % len(_SLOW_DOWN) + _SLOW_DOWN)
            await writer.drain()
            return True
        back.write(head + body)
        await back.drain()
        await self._relay(method, there, writer, damaged=self.damages(request))
        return True

    async def _relay(
        self, method: str, there: asyncio.StreamReader, writer: asyncio.StreamWriter, *, damaged: bool
    ) -> None:
        head = await there.readuntil(_END)
        writer.write(head)
        fields = _fields(head)
        status = int(head.split(b" ", 2)[1])
        if method == "HEAD" or status in (204, 304):
            return
        if fields.get("transfer-encoding") == "chunked":
            while size := int((line := await there.readuntil(b"\r\n")), 16):
                writer.write(line + await there.readexactly(size + 2))
            writer.write(b"0\r\n" + await there.readuntil(b"\r\n"))
        else:
            await self._relay_body(int(fields.get("content-length", 0)), there, writer, damaged)
        await writer.drain()

    @staticmethod
    async def _relay_body(left: int, there: asyncio.StreamReader, writer: asyncio.StreamWriter, damaged: bool) -> None:
        while left:
            data = await there.read(min(left, _CHUNK))
            if not data:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(data)
            writer.write(bytes([data[0] ^ 1]) + data[1:] if damaged else data)
            damaged = False
            await writer.drain()


def _fields(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}
