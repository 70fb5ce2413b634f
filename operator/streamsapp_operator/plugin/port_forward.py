"""Asks a pod over HTTP through the API server's port-forward: with the user's rights, from wherever the user is.

Called on one thread per pod.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException

from kubernetes import client
from kubernetes.stream import portforward

#: Seconds, of each wait for bytes.
_TIMEOUT = 10.0
#: Far more than any pod has to say.
_LONGEST = 64 * 1024 * 1024
_MESSAGE = re.compile(r'"message":"((?:[^"\\]|\\.)*)"')


class PodUnreachableError(Exception):
    """A pod did not answer; the message says why in a few words."""


@dataclass(frozen=True, slots=True)
class PodResponse:
    """A pod's answer."""

    status: int
    body: bytes
    #: By the pod's clock.
    at: datetime | None


def ask(
    configuration: client.Configuration,
    namespace: str,
    pod: str,
    port: int,
    path: str,
    token: str | None,
    *,
    method: str = "GET",
    timeout: float = _TIMEOUT,
) -> PodResponse:
    """Sends a request for a path of a pod, and waits for so many seconds."""
    with forwarded(configuration, namespace, pod, port) as sock:
        connection = HTTPConnection(pod, timeout=timeout)
        connection.sock = sock
        sock.settimeout(timeout)
        return _send(connection, method, path, {} if token is None else {"Authorization": f"Bearer {token}"})


@contextmanager
def forwarded(configuration: client.Configuration, namespace: str, pod: str, port: int) -> Iterator[socket.socket]:
    """Connects to a port of a pod; errors of the connection become ``PodUnreachableError``."""
    # Port-forwarding swaps a method of its client for the time of a call: every call needs a client of its own.
    api = client.CoreV1Api(client.ApiClient(configuration))
    try:
        forward = portforward(api.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port))
    except client.ApiException as error:
        raise PodUnreachableError(_refusal(str(error.reason))) from error
    try:
        yield forward.socket(port)
    except (OSError, HTTPException) as error:
        raise PodUnreachableError(_failure(forward.error(port), error)) from error
    finally:
        forward.close()


def _send(connection: HTTPConnection, method: str, path: str, headers: Mapping[str, str]) -> PodResponse:
    # The connection is kept until all is read: what closes it first could swallow the end of the answer.
    connection.request(method, path, headers=dict(headers))
    answer = connection.getresponse()
    return PodResponse(answer.status, answer.read(_LONGEST), _date(answer.getheader("Date")))


def _date(text: str | None) -> datetime | None:
    try:
        date = None if text is None else parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return None if date is None or date.tzinfo is None else date  # ``-0000`` is no zone


def _refusal(reason: str) -> str:
    """Returns the API server's words from a refused web socket handshake, whose text holds them."""
    if "403" in reason.partition("-+-")[0]:
        return "you may not forward ports of pods (get and create on pods/portforward)"
    told = _MESSAGE.search(reason)
    said = reason if told is None else told[1].replace("\\", "")  # quotes in JSON, in the text of a bytes literal
    return f"ports cannot be forwarded: {_first_line(said)}"


def _failure(told: str | None, error: Exception) -> str:
    """Returns the error that the node reports, which is better than how the connection looks from here."""
    if told:
        return f"does not answer: {_first_line(told)}"
    if isinstance(error, socket.timeout):
        return "does not answer in time"
    return "does not answer: the connection was closed"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:200] if text.strip() else "no reason given"
