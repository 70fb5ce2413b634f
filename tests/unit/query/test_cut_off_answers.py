"""An answer of another instance that was cut off counts as none."""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import closing

import pytest

from streamsapp.query.remote_reader import HttpFetch


@pytest.mark.parametrize(("length", "whole"), [(2, True), (3, False)])
def test_an_answer_that_ends_before_its_end_is_an_error(length: int, whole: bool) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n{}" % length)

        thread = threading.Thread(target=answer)
        thread.start()
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
        if whole:
            assert HttpFetch()(endpoint, "/state", timeout=60).body == b"{}"
        else:
            with pytest.raises(http.client.IncompleteRead):
                HttpFetch()(endpoint, "/state", timeout=60)
        thread.join()
