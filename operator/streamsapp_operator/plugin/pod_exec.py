"""Runs a program in a pod through the API server, with its standard input, output and errors here.

Called on the main thread, which alone uses the connection: one TLS connection is not for two threads.
"""

from __future__ import annotations

import codecs
import json
import select
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TextIO
from urllib.parse import urlencode

import websocket
from kubernetes import client
from kubernetes.stream.ws_client import (
    ERROR_CHANNEL,
    STDERR_CHANNEL,
    STDIN_CHANNEL,
    STDOUT_CHANNEL,
    V5_CHANNEL_PROTOCOL,
    WSClient,
)

from streamsapp_operator.children.names import CONTAINER
from streamsapp_operator.kube.kinds import POD
from streamsapp_operator.plugin.api_errors import not_allowed
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.session import Streams
from streamsapp_operator.plugin.text import clean

_CHUNK = 64 << 10
#: Bytes that TLS has read already wake no thread; milliseconds.
_LOOK_AGAIN = 200


def execute(
    configuration: client.Configuration, namespace: str, pod: str, command: Sequence[str], streams: Streams
) -> int:
    """Runs the program to its end and returns its exit code; raises ``PluginError`` if it cannot be known."""
    connection = _connected(configuration, namespace, pod, command, with_input=streams.input is not None)
    try:
        if streams.input is not None and connection.subprotocol != V5_CHANNEL_PROTOCOL:
            raise PluginError(
                "this API server cannot end the input of a program in a pod; Kubernetes 1.30 and later can"
            )
        return _Exchange(connection, streams).run()
    finally:
        connection.close(timeout=1)


def _connected(
    configuration: client.Configuration, namespace: str, pod: str, command: Sequence[str], *, with_input: bool
) -> Any:
    query = [("container", CONTAINER), ("stdout", "true"), ("stderr", "true"), ("stdin", str(with_input).lower())]
    query += [("command", part) for part in command]
    url = f"{configuration.host.replace('http', 'ws', 1)}{POD.path(namespace, pod, 'exec')}?{urlencode(query)}"
    settings: Any = configuration.auth_settings().values()
    login = {str(it["key"]).lower(): str(it["value"]) for it in settings if it["in"] == "header" and it["value"]}
    try:
        return WSClient(configuration, url, login, capture_all=False, binary=True)
    except websocket.WebSocketBadStatusException as error:
        if error.status_code == 403:
            raise not_allowed("create pods/exec", namespace) from error
        raise PluginError(f"{pod}: nothing can be run there: {_message(error.resp_body)}") from error
    except (websocket.WebSocketException, OSError) as error:
        raise PluginError(f"{configuration.host}: {clean(str(error))}; is the cluster up?") from error


class _Exchange:
    """Carries bytes between the files here and the program there, until that ends."""

    def __init__(self, connection: Any, streams: Streams) -> None:
        self._connection = connection
        self._input = streams.input
        self._status = b""
        self._outputs = ((STDOUT_CHANNEL, _Printer(streams.out)), (STDERR_CHANNEL, _Printer(streams.errors)))

    def run(self) -> int:
        while self._hears():
            self._take()
        self._take(final=True)
        return _exit_code(self._status)

    def _hears(self) -> bool:
        """Carries what has come from either side; says whether there can be more. Everything that came before the
        connection broke is there to be taken: it says how the program ended, or does not."""
        with suppress(websocket.WebSocketException, OSError):
            if self._connection.is_open():
                if self._input_waits():
                    self._send()
                self._connection.update(timeout=0)
                return True
        return False

    def _input_waits(self) -> bool:
        """Waits until something comes from either side; says whether it is from here."""
        poll = select.poll()
        poll.register(self._connection.sock.sock, select.POLLIN)
        if self._input is not None:
            poll.register(self._input, select.POLLIN)
        return self._input is not None and any(fd == self._input.fileno() for fd, _ in poll.poll(_LOOK_AGAIN))

    def _send(self) -> None:
        assert self._input is not None
        chunk = self._input.read1(_CHUNK)  # type: ignore[attr-defined]  # both files and standard input have it
        try:
            if chunk:
                self._connection.write_stdin(chunk)
                return
            self._connection.close_channel(STDIN_CHANNEL)
        except (websocket.WebSocketException, OSError):
            pass  # it ended before its input did, and its message about that is still to be read
        self._input = None

    def _take(self, *, final: bool = False) -> None:
        if final:  # nothing more comes, and nothing more is asked for
            self._connection.close(timeout=1)
        for channel, printer in self._outputs:
            printer.print(self._connection.read_channel(channel), final=final)
        self._status += self._connection.read_channel(ERROR_CHANNEL)


class _Printer:
    """Prints what a program writes: as it is into files and pipes, and so that it steers no terminal."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def print(self, data: bytes, *, final: bool) -> None:
        text = self._decoder.decode(data, final)
        if self._file.isatty():
            text = "\n".join(map(clean, text.split("\n")))
        if text:
            self._file.write(text)
            self._file.flush()


def _exit_code(data: bytes) -> int:
    """Reads how a program ended, from the API server's ``Status``."""
    try:
        status = json.loads(data)
        if status["status"] == "Success":
            return 0
        causes = (status.get("details") or {}).get("causes") or ()
        return next(int(each["message"]) for each in causes if each.get("reason") == "ExitCode")
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise PluginError(f"it is not known how the program in the pod ended: {_message(data)}") from error


def _message(body: bytes | None) -> str:
    try:
        return clean(str(json.loads(body or b"")["message"]))
    except (ValueError, KeyError, TypeError):
        return clean((body or b"").decode(errors="replace")[:200]) or "the pod is gone, or its node does not answer"
