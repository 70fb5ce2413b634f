"""A pod that says what a test wants, byte by byte if need be. Used by the tests of the operator's requests to pods."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamsapp_operator.observe.exchange import Address

DATE = "Thu, 01 Jan 2026 00:00:10 GMT"
BODY = json.dumps({"applicationId": "app", "state": "RUNNING", "generation": 1, "tasks": []}).encode()


def answer(code: str = "200 OK", body: bytes = BODY, date: str | None = DATE) -> bytes:
    head = [f"HTTP/1.1 {code}", f"Content-Length: {len(body)}", *([] if date is None else [f"Date: {date}"])]
    return "".join(f"{line}\r\n" for line in [*head, ""]).encode() + body


@contextmanager
def pod(talk: Callable[[socket.socket, bytes], None]) -> Iterator[Address]:
    """Listens, and talks to each who comes as ``talk`` does, which gets what was asked."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    try:
                        talk(connection, connection.recv(4096))
                    except OSError:
                        continue

        threading.Thread(target=serve, daemon=True).start()
        yield Address("127.0.0.1", listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
