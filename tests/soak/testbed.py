"""The brokers of one soak run, for each instance a network of its own to them, and perhaps an object store.

Made and closed by the run, on the driver's main thread. Each instance is given a listener of each broker that is
advertised at its proxy: everything that it says to a broker goes through that proxy, and nothing else does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from faults import Plan
from kafka_cluster import START_TIMEOUT
from network import Network, Proxy
from s3_server import S3Server
from secured_broker import by_scram, introduce, key_store, logins
from streamsapp.local.broker import EmbeddedBroker, free_port
from three_brokers import REPLICATED, placed

_HOST = "127.0.0.1"


class Testbed:
    """Running brokers and their proxies, and with remote state an S3 server that instances reach directly."""

    def __init__(
        self,
        brokers: Mapping[str, EmbeddedBroker],
        proxies: Mapping[str, Sequence[Proxy]],
        s3: S3Server | None,
        certificate: Path | None,
    ) -> None:
        """``proxies`` has those of each instance that may be cut off; ``certificate`` is the brokers', where they are
        reached by SASL_SSL."""
        self._certificate = certificate
        self._brokers = brokers
        self._proxies = proxies
        self._s3 = s3

    @property
    def s3(self) -> S3Server:
        """Only with remote state."""
        assert self._s3 is not None
        return self._s3

    @property
    def direct(self) -> str:
        """The brokers' addresses for the driver itself, which nothing cuts."""
        return ",".join(each.bootstrap_servers for each in self._brokers.values())

    def address_for(self, name: str) -> str:
        """The brokers' addresses for an instance."""
        if name not in self._proxies:
            return self.direct
        return ",".join(f"{_HOST}:{proxy.port}" for proxy in self._proxies[name])

    @property
    def connection(self) -> dict[str, str]:
        """Properties of an instance's connection to those addresses."""
        return by_scram(self._certificate) if self._certificate else {}

    def cut(self, name: str) -> None:
        """Cut an instance off."""
        for proxy in self._proxies[name]:
            proxy.cut()

    def heal(self, name: str, *, held: bool) -> None:
        """Let an instance reach the brokers again; ``held``: the bytes that it sent meanwhile arrive now."""
        for proxy in self._proxies[name]:
            proxy.heal(held=held)

    def freeze(self, broker: str) -> None:
        """The broker answers nothing."""
        self._signal(broker, signal.SIGSTOP)

    def thaw(self, broker: str) -> None:
        """The broker goes on where it was."""
        self._signal(broker, signal.SIGCONT)

    def stop_broker(self, broker: str) -> None:
        """In good order; by SIGKILL if others take over."""
        if len(self._brokers) == 1:
            self._brokers[broker].stop()
        else:
            self._brokers[broker].kill()

    def start_broker(self, broker: str) -> None:
        """With its data and addresses of before."""
        self._brokers[broker].start()

    def thaw_all(self) -> None:
        """Every broker that runs."""
        for name, broker in self._brokers.items():
            if broker.pid is not None:
                with suppress(ProcessLookupError):
                    self.thaw(name)

    def _signal(self, broker: str, number: signal.Signals) -> None:
        pid = self._brokers[broker].pid
        assert pid is not None
        os.kill(pid, number)


@contextmanager
def running_testbed(directory: Path, plan: Plan) -> Iterator[Testbed]:
    """Servers in ``directory`` that all instances of a plan can reach, until the end of the block."""
    with Network() as network, ExitStack() as stack:
        certificate = directory / "broker.pem" if plan.secured else None
        proxies: dict[str, list[Proxy]] = {name: [] for name in plan.cut_off}
        brokers = _brokers(directory, plan, network, proxies, certificate)
        s3: S3Server | None = None
        if plan.snapshot_interval:
            s3 = stack.enter_context(S3Server(directory / "s3"))
        for each in brokers.values():
            stack.callback(each.stop)
        with ThreadPoolExecutor(len(brokers)) as starting:
            list(starting.map(EmbeddedBroker.start, brokers.values()))
        testbed = Testbed(brokers, proxies, s3, certificate)
        stack.callback(testbed.thaw_all)
        if certificate is not None:
            introduce(testbed.direct, "anna", "secret")
        yield testbed


def _brokers(
    directory: Path, plan: Plan, network: Network, proxies: Mapping[str, list[Proxy]], certificate: Path | None
) -> dict[str, EmbeddedBroker]:
    """Brokers that do not run yet. Each adds to the proxies of each instance the proxy that leads to it."""
    properties = {
        "group.min.session.timeout.ms": str(int(plan.session * 1000)),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    if certificate is not None:
        by_name = (_listener(name).lower() for name in plan.names)
        properties |= REPLICATED | key_store(directory, certificate) | logins(*by_name)
    controller = free_port()
    made: dict[str, EmbeddedBroker] = {}
    for number, broker in enumerate(plan.brokers, 1):
        own, *ports = (free_port() for _ in range(1 + len(proxies)))
        listeners = dict(zip(proxies, ports, strict=True))
        for name, port in listeners.items():
            proxies[name].append(network.proxy(port))
        told = {name: ways[-1].port for name, ways in proxies.items()}
        protocol = "SASL_SSL" if plan.secured else "PLAINTEXT"
        settings = {**properties, **_listeners(own, listeners, told, protocol)}
        settings |= placed(number, settings["listeners"], controller)
        made[broker] = EmbeddedBroker(directory / broker, own, properties=settings, start_timeout=START_TIMEOUT)
    return made


def _listeners(own: int, listeners: Mapping[str, int], told: Mapping[str, int], protocol: str) -> dict[str, str]:
    """One listener for the driver, and one of this protocol for each instance, named after it. A broker advertises
    another port to the instance."""
    everybody = {"PLAINTEXT": own, **{_listener(name): port for name, port in listeners.items()}}
    protocols = {"CONTROLLER": "PLAINTEXT", **dict.fromkeys(everybody, protocol), "PLAINTEXT": "PLAINTEXT"}
    return {
        "listeners": _addresses(everybody),
        "advertised.listeners": _addresses(
            {"PLAINTEXT": own, **{_listener(name): port for name, port in told.items()}}
        ),
        "listener.security.protocol.map": ",".join(f"{name}:{by}" for name, by in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def _listener(name: str) -> str:
    return f"TO_{name.upper()}"


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{_HOST}:{port}" for name, port in ports.items())
