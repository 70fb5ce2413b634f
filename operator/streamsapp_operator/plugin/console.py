"""``kubectl streamsapp console [NAME]``: the page of an application's pod, or the operator's of all applications, at an
address of this machine.

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
from streamsapp_operator.plugin.session import CommandSession, Document, PageServer, warn

_HOST = "127.0.0.1"
_CHUNK = 64 << 10
_LARGEST_PORT = 65535


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "console",
        "a page: of all applications, or of one with its topology, tasks, stores and last records",
        "It forwards a port of this machine to a pod, until Ctrl-C, and prints the address. That of an application\n"
        "has its token behind the #, which a browser sends nowhere. The page of all applications asks for a token\n"
        "of the API server (kubectl create token), and acts with that. Other users of this machine reach the port,\n"
        "and need the token as well.",
        run,
        about_one=False,
    )
    parser.add_argument("--pod", metavar="POD", help="the page of this one; default: the first that is ready")
    parser.add_argument(
        "--port", type=_port, default=0, metavar="PORT", help="port of this machine; default: any free one"
    )
    # The token is among the browser's arguments, which other users of the machine can list.
    parser.add_argument(
        "--open", action="store_true", help="open a browser; other users of this machine may see the token"
    )


def run(options: argparse.Namespace, session: CommandSession) -> int:
    if options.name is None and options.pod is not None:
        raise PluginError("--pod: is of an application; name it", WRONG_INPUT)
    page = session.cluster.operators_page() if options.name is None else _page_of(options.name, options.pod, session)
    _reach(session, page)
    with _listening(options.port) as listener:
        url = _address(listener.getsockname()[1], page.token)
        if options.name is None:
            warn("it asks for a token of the API server, such as kubectl create token NAME makes for a ServiceAccount")
        if options.output == "json":
            session.print_json({"pod": page.pod, "url": url})
        else:
            where = page.pod if options.name is not None else f"{page.namespace}/{page.pod}"
            session.print([f"{where}: {url}", "until Ctrl-C"])
        if options.open:
            webbrowser.open(url)
        with suppress(KeyboardInterrupt):
            while True:
                browser, _ = listener.accept()
                threading.Thread(target=_carry, args=(session, page, browser), daemon=True).start()
    return 0


def _page_of(name: str, pod: str | None, session: CommandSession) -> PageServer:
    session.cluster.app(name)
    return session.cluster.page_of(name, _chosen(session.cluster.pods(name), name, pod))


def _chosen(pods: Sequence[Document], name: str, wanted: str | None) -> str:
    # Of Spark's pods, the driver speaks for the executors.
    known = {pod["metadata"]["name"]: is_ready(pod) for pod in pods if role_of(pod) != EXECUTOR}
    if not known:
        raise PluginError(f"{name} has no pods now that could serve the page")
    if wanted is not None and wanted not in known:
        raise PluginError(f"--pod: {name} has no pod {wanted!r}; there are: {', '.join(known)}", WRONG_INPUT)
    return wanted or next((each for each, ready in known.items() if ready), next(iter(known)))


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port, 0 to {_LARGEST_PORT}, got {text!r}")
    return int(text)


def _reach(session: CommandSession, page: PageServer) -> None:
    """Fails at once where every connection would."""
    try:
        with session.cluster.forwarded(page):
            pass
    except PodUnreachableError as error:
        raise PluginError(f"{page.pod}: {error}") from error


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port))
    except OSError as error:
        raise PluginError(f"--port: {port} cannot be used: {error}", WRONG_INPUT) from error


def _address(port: int, token: str | None) -> str:
    page = f"http://{_HOST}:{port}/console/"
    return page if token is None else f"{page}#token={quote(token)}"


def _carry(session: CommandSession, page: PageServer, browser: socket.socket) -> None:
    """Carries one connection to the pod, both ways, until either side ends it. A pod that comes back under its name is
    there for the next one."""
    with browser:
        try:
            with session.cluster.forwarded(page) as there:
                back = threading.Thread(target=_copy, args=(there, browser), daemon=True)
                back.start()
                _copy(browser, there)
                back.join()
        except PodUnreachableError as error:
            warn(f"{page.pod}: {error}")


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copies until the source ends or either fails; then both end, as no program is left to read or to write."""
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
