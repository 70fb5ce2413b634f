"""Makes the connections that kopf watches through: a document that is nested too deeply for Python's reader never
reaches it.

Made on kopf's event loop, at each login. kopf reads answers with Python's own reader, whose error would end the watch
of all applications.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf

from streamsapp_operator.kube.documents import read_json, shallow


def shallow_session(info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
    """Makes the session of a login."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        response_class=_Shallow,
        proxy=info.proxy_url,
        trust_env=info.trust_env or False,
    )
    return kopf.AiohttpSession(server=info.server, default_namespace=info.default_namespace, aiohttp_session=session)


class _Shallow(aiohttp.ClientResponse):
    """Reads an answer, as a whole or line by line."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        await super().start(connection)
        self.content: Any = _Lines(self.content)
        return self

    async def json(self, **_: Any) -> Any:
        return read_json(await self.read())


class _Lines:
    """Reads what comes in; in chunks, as kopf reads a watch, it comes in whole lines."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        begun: list[bytes] = []
        async for chunk in self._content.iter_chunked(size):
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield shallow(b"".join([*begun, line])) + b"\n"
                begun = []
            begun.append(rest)
