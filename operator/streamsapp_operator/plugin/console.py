"""``kubectl streamsapp console NAME``: the page of an application's pod, at an address of this machine.

The main thread takes connections from browsers; each is carried to the pod on two threads of its own.
"""

from __future__ import annotations

import argparse
import socket
import threading
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import quote

from streamsapp_operator.children.names import EXECUTOR
from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.documents import is_ready, role_of
from streamsapp_operator.plugin.errors import WRONG_INPUT, PluginError
from streamsapp_operator.plugin.port_forward import PodUnreachableError
from streamsapp_operator.plugin.session import CommandSession, Document, warn

_HOST = "127.0.0.1"
_CHUNK = 64 << 10
_LARGEST_PORT = 65535


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "console",
        "the application's own page: topology, tasks, stores, last records",
        "It forwards a port of this machine to a pod, until Ctrl-C, and prints the address. That has the\n"
        "application's token behind the #, which a browser sends nowhere. Other users of this machine reach\n"
        "the port, and need the token as well.",
        run,
    )
    parser.add_argument("--pod", metavar="POD", help="the page of this one; default: the first that is ready")
    parser.add_argument("--port", type=_port, default=0, metavar="PORT", help="of this machine; default: any free one")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def run(options: argparse.Namespace, session: CommandSession) -> int:
    session.cluster.app(options.name)
    pod = _chosen(session.cluster.pods(options.name), options.name, options.pod)
    _reach(session, pod)
    with _listening(options.port) as listener:
        url = _address(listener.getsockname()[1], session.cluster.token(options.name))
        if options.output == "json":
            session.print_json({"pod": pod, "url": url})
        else:
            session.print([f"{pod}: {url}", "until Ctrl-C"])
        if options.open:
            webbrowser.open(url)
        with suppress(KeyboardInterrupt):
            while True:
                browser, _ = listener.accept()
                threading.Thread(target=_carry, args=(session, pod, browser), daemon=True).start()
    return 0


def _chosen(pods: Sequence[Document], name: str, wanted: str | None) -> str:
    # Of Spark's pods, the driver speaks for the executors.
    known = {pod["metadata"]["name"]: is_ready(pod) for pod in pods if role_of(pod) != EXECUTOR}
    if not known:
        raise PluginError(f"{name} has no pods now, and they are what serves the page")
    if wanted is not None and wanted not in known:
        raise PluginError(f"--pod: {name} has no pod {wanted!r}; there are: {', '.join(known)}", WRONG_INPUT)
    return wanted or next((each for each, ready in known.items() if ready), next(iter(known)))


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port, 0 to {_LARGEST_PORT}, got {text!r}")
    return int(text)


def _reach(session: CommandSession, pod: str) -> None:
    """Fails at once where every connection would."""
    try:
        with session.cluster.forwarded(pod):
            pass
    except PodUnreachableError as error:
        raise PluginError(f"{pod}: {error}") from error


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port))
    except OSError as error:
        raise PluginError(f"--port: {port} cannot be used: {error}", WRONG_INPUT) from error


def _address(port: int, token: str | None) -> str:
    page = f"http://{_HOST}:{port}/console/"
    return page if token is None else f"{page}#token={quote(token)}"


def _carry(session: CommandSession, pod: str, browser: socket.socket) -> None:
    """Carries one connection to the pod, both ways, until either side ends it. A pod that comes back under its name is
    there for the next one."""
    with browser:
        try:
            with session.cluster.forwarded(pod) as there:
                back = threading.Thread(target=_copy, args=(there, browser), daemon=True)
                back.start()
                _copy(browser, there)
                back.join()
        except PodUnreachableError as error:
            warn(f"{pod}: {error}")


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copies until the source ends or either fails; then both end, as nobody is left to read or to write."""
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
