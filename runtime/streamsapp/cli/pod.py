"""A pod of several instances: the supervisor's side of the command line, and the instance's.

Called by ``run`` and ``local`` on the main thread.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import closing, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType

from streamsapp.cli.shutdown import closing_on_signals
from streamsapp.manifest.member_notice import write_notice
from streamsapp.manifest.mounts import HTTP_TOKEN_FILE
from streamsapp.query.remote_reader import HttpFetch
from streamsapp.supervisor.last_failure import failure_line
from streamsapp.supervisor.lifeline import member_line
from streamsapp.supervisor.pod_supervisor import PodSupervisor, time_of_instances
from streamsapp.supervisor.routes import pod_routes
from streamsapp.web import HttpServer
from streamsapp.web.endpoint import bracketed, endpoint_of
from streamsapp.web.request_routing import Routes
from streamsapp.web.server import ALL_INTERFACES

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
#: No host has these (RFC 5737, RFC 3849): packets to them go where those to the rest of the world do.
_OUTGOING = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}


@dataclass(frozen=True)
class InstanceIdentity:
    """The identity that distinguishes one instance of a pod from the others."""

    name: str
    #: Instances of one host are lost together: an active task's standbys are kept off its host.
    host_id: str


@dataclass(frozen=True)
class PodSettings:
    """The settings that are decided for a pod before its instances start."""

    application_id: str
    name: str
    seats: tuple[InstanceIdentity, ...]
    #: Of each instance.
    memory_bytes: int
    #: Of all; each instance has a folder of its own below.
    state_dir: Path
    bootstrap_servers: str
    http_host: str
    #: ``host:port`` of the pod; ``None`` for its own address and the port.
    application_server: str | None
    #: The place where snapshots are kept, if not where the manifest says.
    remote_state_url: str | None = None
    #: The broker is the one that ``streamsapp local`` has started.
    own_broker: bool = False


def add_member_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that the supervisor gives its instances, and that users do not need."""
    hidden = argparse.SUPPRESS
    parser.add_argument("--lifeline", type=int, help=hidden)
    parser.add_argument("--http-host", default=ALL_INTERFACES, help=hidden)
    parser.add_argument("--client-id", help=hidden)
    parser.add_argument("--host-id", help=hidden)
    parser.add_argument("--memory-bytes", type=int, help=hidden)
    parser.add_argument("--remote-state-url", help=hidden)
    parser.add_argument("--own-broker", action="store_true", help=hidden)


def run_pod(options: argparse.Namespace, settings: PodSettings, more: Routes = MappingProxyType({})) -> int:
    """Run several instances until closed, with ``more`` routes at their port; returns the exit code."""
    with closing(HttpServer(options.http_port, host=settings.http_host, token_file=HTTP_TOKEN_FILE)) as server:
        endpoint = bracketed(settings.application_server or endpoint_of(_address(settings), server.port))
        commands = {seat.name: _command(options, settings, seat, endpoint) for seat in settings.seats}
        pod = PodSupervisor(commands, HttpFetch(HTTP_TOKEN_FILE), options.shutdown_timeout)
        routes = pod_routes(pod, settings.application_id, settings.name, options.shutdown_timeout)
        server.start({**routes, **more}, endpoint)
        log.info("%d instances; status on http://%s/status", len(commands), server.address)
        with closing_on_signals(pod.stop):
            pod.start()
            return pod.wait()


class _Lifeline:
    """The line to the supervisor, of a process that has one."""

    line: socket.socket | None = None


def follow_supervisor(lifeline: int, port: int) -> None:
    """Tell the supervisor this instance's port, and leave as on a signal when the supervisor is gone."""
    line = _Lifeline.line = socket.socket(fileno=lifeline)
    line.set_inheritable(False)
    line.sendall(b"%d\n" % port)
    threading.Thread(target=_leave_at_the_end, args=(line,), name="lifeline", daemon=True).start()


def tell_member(member_id: str) -> None:
    """Leave word of this instance's member of the group for the one that sees the process end: the supervisor, if there
    is one, else Kubernetes. Called on the membership's thread, and waits for nothing."""
    if _Lifeline.line is None:
        write_notice([member_id] if member_id else [])
        return
    with suppress(OSError):
        _Lifeline.line.send(member_line(member_id), socket.MSG_DONTWAIT)


def tell_supervisor(error: BaseException) -> None:
    """Tell the supervisor, if there is one, of the failure that ends this instance: people look there meanwhile."""
    if _Lifeline.line is not None:
        with suppress(OSError):
            _Lifeline.line.sendall(failure_line(error))


def _address(settings: PodSettings) -> str:
    return LOOPBACK if settings.http_host == LOOPBACK else own_address()


def own_address() -> str:
    """The address at which others reach this host: the one that its name stands for; in a pod, the pod's. Where that is
    a loopback address, by which every instance would ask itself, it is the one that connections go out from."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        found = []
    # IPv4 where there is any, as before IPv6; without the scope that a link-local address has.
    addresses = [str(address[0]) for family, *_, address in sorted(found, key=itemgetter(0)) if family in _OUTGOING]
    named = next((each for each in addresses if "%" not in each), LOOPBACK)
    return _outgoing_address() or named if ip_address(named).is_loopback else named


def _outgoing_address() -> str | None:
    for family, elsewhere in _OUTGOING.items():
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))  # nothing is sent
            return str(probe.getsockname()[0])
    log.warning(
        "this host has a name for loopback only, and no route out: instances on other hosts cannot ask this one for "
        "its state; give the address that reaches it by --application-server"
    )
    return None


def _leave_at_the_end(line: socket.socket) -> None:
    with line:
        line.recv(1)  # it says nothing: this returns when it is gone
    log.warning("the supervisor is gone; leaving")
    os.kill(os.getpid(), signal.SIGTERM)


def _command(options: argparse.Namespace, settings: PodSettings, seat: InstanceIdentity, endpoint: str) -> list[str]:
    given = {
        "--file": options.file,
        "--bootstrap-servers": settings.bootstrap_servers,
        # Within the application's own folder, which a reset deletes.
        "--state-dir": settings.state_dir / settings.application_id / f"instance-{settings.seats.index(seat)}",
        "--http-host": LOOPBACK,
        "--http-port": 0,
        "--shutdown-timeout": time_of_instances(options.shutdown_timeout),
        "--application-server": endpoint,
        "--client-id": seat.name,
        "--host-id": seat.host_id,
        "--memory-bytes": settings.memory_bytes,
    }
    if settings.remote_state_url is not None:
        given["--remote-state-url"] = settings.remote_state_url
    program = [sys.executable, "-m", "streamsapp.cli.main"]
    logs = ["--log-level", options.log_level, "--log-format", options.log_format]
    own_broker = ["--own-broker"] if settings.own_broker else []
    return [*program, *logs, "run", *own_broker, *(str(part) for option in given.items() for part in option)]
