"""A network that can be cut: TCP proxies in front of a server, each cut and healed by itself.

Made by the soak driver and by tests, one proxy for each client that is to be cut off alone; bytes are moved on one
thread of its own.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

_HOST = "127.0.0.1"
_CHUNK = 1 << 16

T = TypeVar("T")


class Proxy:
    """One way to a server. Made by :meth:`Network.proxy`; its methods may be called on any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: int) -> None:
        self._loop = loop
        self._target = target
        self._through = asyncio.Event()
        self._through.set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        #: The address for clients.
        self.port = 0

    def cut(self) -> None:
        """Nothing gets through any more, in either direction; neither end gets notice of it."""
        _call(self._loop, self._through.clear)

    def heal(self, *, held: bool = False) -> None:
        """Let bytes through again.

        Connections of before are reset, and what was under way on them is lost: a router that forgot them. With
        ``held`` they go on, and what was sent meanwhile arrives late.
        """
        _call(self._loop, lambda: self._heal(held))

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, _HOST, 0)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _heal(self, held: bool) -> None:
        if not held:
            self._reset()
        self._through.set()

    def _reset(self) -> None:
        for writer in self._connections:
            _abort(writer)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        self._remember(asyncio.current_task())
        try:
            await self._through.wait()
            if writer.is_closing():
                return
            there, back = await asyncio.open_connection(_HOST, self._target)
        except OSError:
            _abort(writer)
            return
        finally:
            self._connections.discard(writer)
        self._connections |= {writer, back}
        for source, sink in ((reader, back), (there, writer)):
            self._remember(asyncio.create_task(self._pump(source, sink)))

    def _remember(self, task: asyncio.Task[None] | None) -> None:
        """Notes a running task, which ends with the proxy."""
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Move bytes until either end closes or is reset."""
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                await self._through.wait()
                sink.write(data)
                await sink.drain()
        await self._through.wait()
        self._connections.discard(sink)
        sink.close()


class Network:
    """Proxies and the thread that moves their bytes. As a context manager it is closed on exit."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()
        self._proxies: list[Proxy] = []

    def proxy(self, target: int) -> Proxy:
        """A way to a port of this machine; nothing needs to listen there yet."""
        made = Proxy(self._loop, target)
        asyncio.run_coroutine_threadsafe(made.listen(), self._loop).result()
        self._proxies.append(made)
        return made

    def close(self) -> None:
        """Reset everything and end the thread."""
        for proxy in self._proxies:
            asyncio.run_coroutine_threadsafe(proxy.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close so that the other end gets a reset instead of an orderly end."""
    if not writer.is_closing():
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> T:
    """Run a function on the loop's thread and wait for it."""

    async def run() -> T:
        return function()

    return asyncio.run_coroutine_threadsafe(run(), loop).result()
