"""A broker that takes credentials and speaks TLS, with a certificate of its own making."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from streamsapp.local.broker import EmbeddedBroker, free_port
from streamsapp.local.java import find_java

_LOGIN = "org.apache.kafka.common.security"


class SecuredBroker(EmbeddedBroker):
    """Listens without questions, to names with passwords, and by TLS."""

    def __init__(self, directory: Path) -> None:
        self.sasl_port, self.tls_port = free_port(), free_port()
        self.certificate = directory / "broker.pem"
        super().__init__(directory / "kafka")
        listeners = (
            f"PLAINTEXT://127.0.0.1:{self.port},SASL_PLAINTEXT://127.0.0.1:{self.sasl_port},"
            f"SSL://127.0.0.1:{self.tls_port}"
        )
        plain, scram = f"{_LOGIN}.plain.PlainLoginModule required", f"{_LOGIN}.scram.ScramLoginModule required;"
        self._properties = {
            "group.min.session.timeout.ms": "1000",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{plain} user_anna="secret";',
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": scram,
            "ssl.keystore.location": str(_key_store(directory, self.certificate)),
            "ssl.keystore.password": "changeit",
            "ssl.keystore.type": "PKCS12",
        }


def _key_store(directory: Path, certificate: Path) -> Path:
    store = directory / "broker.p12"
    keytool = find_java().with_name("keytool")
    common = ["-alias", "broker", "-keystore", str(store), "-storepass", "changeit", "-storetype", "PKCS12"]
    pair = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=broker", "-ext", "SAN=ip:127.0.0.1", "-validity", "2"]
    quiet = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
    subprocess.run([str(keytool), *pair, *common], check=True, capture_output=True, env=quiet)
    export = [str(keytool), "-exportcert", "-rfc", "-file", str(certificate), *common]
    subprocess.run(export, check=True, capture_output=True, env=quiet)
    return store
