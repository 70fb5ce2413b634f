"""A program in a pod, as the connection shows it: its output goes out, and a closed output raises no error of pods."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
import websocket
from kubernetes.stream.ws_client import ERROR_CHANNEL, STDOUT_CHANNEL

from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.pod_exec import _Exchange
from streamsapp_operator.plugin.session import Streams

SUCCESS = json.dumps({"status": "Success"}).encode()


class Connection:
    """Channels have what they are given, once; then the connection ends, or breaks."""

    def __init__(self, sock: socket.socket, status: bytes, *, breaks: bool = False) -> None:
        self.sock = SimpleNamespace(sock=sock)
        self._channels = {STDOUT_CHANNEL: b"a record\n", ERROR_CHANNEL: status}
        self._looks = 0
        self._breaks = breaks

    def is_open(self) -> bool:
        return self._looks < 2

    def update(self, timeout: float) -> None:
        self._looks += 1
        if self._breaks:
            raise websocket.WebSocketConnectionClosedException("it broke")

    def read_channel(self, channel: int) -> bytes:
        return self._channels.pop(channel, b"")

    def close(self, **_: Any) -> None:
        pass


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with closing(theirs), closing(ours):
        theirs.send(b"something comes")
        yield ours


class NobodyReads(io.StringIO):
    """As behind ``| head``, when that has ended."""

    def write(self, _: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("breaks", [False, True])
def test_everything_that_came_is_printed_and_tells_how_it_ended(sock: socket.socket, breaks: bool) -> None:
    out = io.StringIO()
    code = _Exchange(Connection(sock, SUCCESS, breaks=breaks), Streams(out, io.StringIO())).run()
    assert (code, out.getvalue()) == (0, "a record\n")


def test_a_connection_that_breaks_without_a_word_leaves_the_end_unknown(sock: socket.socket) -> None:
    with pytest.raises(PluginError, match="not known how the program in the pod ended"):
        _Exchange(Connection(sock, b"", breaks=True), Streams(io.StringIO(), io.StringIO())).run()


def test_a_reader_who_has_what_it_wanted_ends_the_command_without_talk_of_pods(sock: socket.socket) -> None:
    with pytest.raises(BrokenPipeError):
        _Exchange(Connection(sock, b""), Streams(NobodyReads(), io.StringIO())).run()
