"""Streams of server-sent events, so many at a time. Called on threads of the HTTP server.

Each viewer has a stream of their own, on the thread of their connection, which ends when they are gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from http import HTTPStatus
from typing import Any

import orjson

from streamsapp.web.request_routing import HttpRequest, HttpResponse, json_response

#: The documents that a request asks for, one after the other; ``None``: nothing new, which finds out which clients are
#: gone.
Documents = Callable[[HttpRequest], Generator[Any, None, None]]


class EventStreams:
    """Sends documents as server-sent events."""

    def __init__(self, documents: Documents, most: int) -> None:
        self._documents = documents
        self._most = most
        self._room = threading.BoundedSemaphore(most)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not self._room.acquire(blocking=False):
            error = {"error": f"{self._most} pages look at this port already; close one"}
            return json_response(error, HTTPStatus.SERVICE_UNAVAILABLE, **{"Retry-After": "5"})
        try:
            stream = self._events(self._documents(request))
        except BaseException:
            self._room.release()
            raise
        next(stream)  # from here on closing it gives the room back
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return HttpResponse(HTTPStatus.OK, b"", "text/event-stream", headers, stream)

    def _events(self, documents: Generator[Any, None, None]) -> Generator[bytes, None, None]:
        try:
            yield b""
            with closing(documents):
                for each in documents:
                    yield b": still here\n\n" if each is None else _event(each)
        finally:
            self._room.release()


def _event(document: Any) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS)
