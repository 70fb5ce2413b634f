"""A broker of one soak run, for each instance a network of its own to it, and perhaps an object store.

Made and closed by the run, on the driver's main thread. Each instance is given a listener of the broker that is
advertised at its proxy, so that everything it says to the broker goes through that proxy and nobody else's does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from faults import SESSION, Plan
from kafka_cluster import START_TIMEOUT
from network import Network, Proxy
from s3_server import S3Server
from secured_broker import by_scram, introduce, key_store, logins
from streamsapp.local.broker import EmbeddedBroker, free_port

_HOST = "127.0.0.1"


class Testbed:
    """A running broker and its proxies, and with remote state an S3 server that instances reach directly."""

    def __init__(
        self, broker: EmbeddedBroker, proxies: dict[str, Proxy], s3: S3Server | None, certificate: Path | None
    ) -> None:
        """``certificate``: the broker's, where instances reach it by SASL_SSL."""
        self._certificate = certificate
        self._broker = broker
        self._proxies = proxies
        self._s3 = s3

    @property
    def s3(self) -> S3Server:
        """Only with remote state."""
        assert self._s3 is not None
        return self._s3

    @property
    def direct(self) -> str:
        """The broker's address for the driver itself, which nothing cuts."""
        return self._broker.bootstrap_servers

    def address_for(self, name: str) -> str:
        """The broker's address for an instance."""
        return f"{_HOST}:{self._proxies[name].port}"

    @property
    def connection(self) -> dict[str, str]:
        """Properties of an instance's connection to that address."""
        return by_scram(self._certificate) if self._certificate else {}

    def cut(self, name: str) -> None:
        """Cut an instance off."""
        self._proxies[name].cut()

    def heal(self, name: str, *, held: bool) -> None:
        """Let an instance reach the broker again; ``held``: what it sent meanwhile arrives now."""
        self._proxies[name].heal(held=held)

    def freeze(self) -> None:
        """The broker answers nobody."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """The broker goes on where it was."""
        self._signal(signal.SIGCONT)

    def stop_broker(self) -> None:
        """In good order."""
        self._broker.stop()

    def start_broker(self) -> None:
        """With its data and addresses of before."""
        self._broker.start()

    def _signal(self, number: signal.Signals) -> None:
        assert self._broker.pid is not None
        os.kill(self._broker.pid, number)


@contextmanager
def running_testbed(directory: Path, plan: Plan) -> Iterator[Testbed]:
    """Servers in ``directory`` that all instances of a plan can reach, until the end of the block."""
    names = plan.names
    with Network() as network, ExitStack() as stack:
        own, controller, *ports = (free_port() for _ in range(2 + len(names)))
        listeners = dict(zip(names, ports, strict=True))
        proxies = {name: network.proxy(port) for name, port in listeners.items()}
        properties = {
            **_listeners(own, controller, listeners, proxies, "SASL_SSL" if plan.secured else "PLAINTEXT"),
            "group.min.session.timeout.ms": str(int(SESSION * 1000)),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        }
        certificate = directory / "broker.pem" if plan.secured else None
        if certificate is not None:
            properties |= key_store(directory, certificate) | logins(*(_listener(name).lower() for name in names))
        broker = EmbeddedBroker(directory / "kafka", own, properties=properties, start_timeout=START_TIMEOUT)
        s3: S3Server | None = None
        if plan.snapshot_interval:
            s3 = stack.enter_context(S3Server(directory / "s3"))
        with broker:
            if certificate is not None:
                introduce(broker.bootstrap_servers, "anna", "secret")
            testbed = Testbed(broker, proxies, s3, certificate)
            try:
                yield testbed
            finally:
                if broker.pid is not None:
                    with suppress(ProcessLookupError):
                        testbed.thaw()


def _listeners(
    own: int, controller: int, listeners: dict[str, int], proxies: dict[str, Proxy], protocol: str
) -> dict[str, str]:
    """One listener for the driver, one for the controller, one of this protocol for each instance, named after it."""
    everybody = {"PLAINTEXT": own, **{_listener(name): port for name, port in listeners.items()}}
    told = {"PLAINTEXT": own, **{_listener(name): proxy.port for name, proxy in proxies.items()}}
    return {
        "controller.quorum.voters": f"1@{_HOST}:{controller}",
        "listeners": _addresses({**everybody, "CONTROLLER": controller}),
        "advertised.listeners": _addresses(told),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol if name in told and name != 'PLAINTEXT' else 'PLAINTEXT'}"
            for name in [*everybody, "CONTROLLER"]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def _listener(name: str) -> str:
    return f"TO_{name.upper()}"


def _addresses(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://{_HOST}:{port}" for name, port in ports.items())
