"""Runs an instance in the foreground: with its HTTP port, until a signal or an error ends it.

Called by ``run`` and ``local``, and by ``StreamsRuntime.run()`` in a program of the user's, on the main thread, which
waits here.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import closing
from types import MappingProxyType
from typing import TYPE_CHECKING

from streamsapp.cli.shutdown import closing_on_signals
from streamsapp.errors import ImmediateExit
from streamsapp.http import instance_routes
from streamsapp.http.instance_routes import Drain
from streamsapp.manifest.mounts import HTTP_TOKEN_FILE
from streamsapp.native import take_large_arenas
from streamsapp.web import HttpServer
from streamsapp.web.request_routing import Routes

if TYPE_CHECKING:
    from streamsapp.runtime.instance import StreamsRuntime

log = logging.getLogger(__name__)


def run_with_port(runtime: StreamsRuntime, host: str, port: int, application_server: str, within: float) -> None:
    """Runs it until it is closed, and raises any other error that ended it. A second signal ends the process at once:
    committed work is safe, and the rest is processed again."""
    try:
        with closing(HttpServer(port, host=host, token_file=HTTP_TOKEN_FILE)) as server:
            error = run_until_closed(runtime, server, application_server, within)
    except ImmediateExit:
        logging.shutdown()
        os._exit(1)
    if error is not None:
        raise error


def run_until_closed(
    runtime: StreamsRuntime,
    server: HttpServer,
    application_server: str,
    shutdown_timeout: float,
    more: Routes = MappingProxyType({}),
) -> BaseException | None:
    """Starts an instance and its port; returns what ended it, or ``None`` when it was closed. The port has
    ``more`` routes than every instance has. The process is the instance's, and so is how it gets memory."""
    from streamsapp.runtime.client_state import ClientState  # late: commands that run nothing load no clients

    take_large_arenas()
    drain = Drain(runtime.drain, shutdown_timeout)
    gone = threading.Event()

    def leave() -> None:
        # An instance in no generation of the group, such as one that still looks for a broker, has nothing to hand
        # over.
        if runtime.state is not ClientState.CREATED and runtime.status()["generation"] is not None:
            runtime.drain(shutdown_timeout)
        else:
            runtime.close(shutdown_timeout, leave_group=True)
        gone.set()

    server.start({**instance_routes(runtime, runtime.queries, drain), **more}, application_server)
    with closing_on_signals(leave, within=shutdown_timeout):
        log.info("status on http://%s/status", server.address)
        runtime.start()
        error = runtime.wait()
        if error is None and drain.asked.is_set():
            log.info("drained; waiting to be stopped")
            gone.wait()
    return error
