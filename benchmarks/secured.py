"""A broker that also listens by SASL_SSL, and how each system reaches it: SCRAM-SHA-512 over TLS 1.3, which both sides
take by themselves.

Started by ``run.py`` for ``--over sasl_ssl``; topics are filled and read over its plain listener. It is that of the
tests, in tests/support.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from secured_broker import SecuredBroker

_USER, _PASSWORD = "anna", "secret"
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
#: The compiler that begins fastest, as other brokers of the benchmarks have it, knows no AES instructions.
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"


class _Broker(SecuredBroker):
    def _run(self, command: list[str], lock: int) -> None:
        super()._run([each for each in command if each != _FIRST_COMPILER], lock)


@contextmanager
def secured_broker(directory: Path, properties: dict[str, str]) -> Iterator[SecuredBroker]:
    """A broker that knows the user of ``connection``."""
    directory.mkdir(parents=True)
    broker = _Broker(directory)
    broker.add(properties)
    with broker:
        broker.introduce(_USER, _PASSWORD)
        yield broker


def connection(broker: SecuredBroker, system: str) -> dict[str, str]:
    """The properties by which a system's clients reach it."""
    common = {
        "bootstrap.servers": f"127.0.0.1:{broker.sasl_tls_port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
    }
    if system == "kafka-streams":
        return common | {
            "sasl.jaas.config": f'{_LOGIN} username="{_USER}" password="{_PASSWORD}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(broker.certificate),
        }
    return common | {
        "sasl.username": _USER,
        "sasl.password": _PASSWORD,
        "ssl.ca.location": str(broker.certificate),
    }
