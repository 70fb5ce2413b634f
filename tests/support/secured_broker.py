"""A broker that takes credentials and speaks TLS, with a certificate of its own making."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import trustme
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

import jdk
from kafka_cluster import START_TIMEOUT
from streamsapp.local.broker import EmbeddedBroker, free_port

_LOGIN = "org.apache.kafka.common.security"


#: Milliseconds after which a session of SCRAM-SHA-256 ends unless the client shows its credentials anew (KIP-368).
SESSION = 2000


class SecuredBroker(EmbeddedBroker):
    """Listens without questions, to names with passwords, by TLS, by both, and to those with a certificate."""

    def __init__(self, directory: Path) -> None:
        self.sasl_port, self.tls_port, self.sasl_tls_port, self.mutual_port = (free_port() for _ in range(4))
        self.certificate = directory / "broker.pem"
        #: Whose certificates clients have to show where they are asked for one.
        self.client_authority = trustme.CA()
        clients = directory / "clients.pem"
        self.client_authority.cert_pem.write_to_path(str(clients))
        super().__init__(directory / "kafka", start_timeout=START_TIMEOUT)
        ports = {
            "PLAINTEXT": self.port,
            "SASL_PLAINTEXT": self.sasl_port,
            "SSL": self.tls_port,
            "SASL_SSL": self.sasl_tls_port,
            "MUTUAL": self.mutual_port,
        }
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        self._properties = {
            "group.min.session.timeout.ms": "1000",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,MUTUAL:SSL,"
                "CONTROLLER:PLAINTEXT"
            ),
            **logins("sasl_plaintext", "sasl_ssl"),
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            **key_store(directory, self.certificate),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": str(clients),
        }

    def add(self, properties: Mapping[str, str]) -> None:
        """Settings of its own, before it is started."""
        self._properties |= properties

    def introduce(self, name: str, password: str) -> None:
        """Make a user known to SCRAM."""
        introduce(self.bootstrap_servers, name, password)


def introduce(bootstrap_servers: str, name: str, password: str) -> None:
    """Make a user known to SCRAM in a cluster."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        known = UserScramCredentialUpsertion(name, ScramCredentialInfo(mechanism, 4096), password.encode())
        for done in admin.alter_user_scram_credentials([known]).values():
            done.result()


def logins(*listeners: str) -> dict[str, str]:
    """A broker's settings by which its listeners take each mechanism."""
    plain, scram = f"{_LOGIN}.plain.PlainLoginModule required", f"{_LOGIN}.scram.ScramLoginModule required;"
    settings = {
        "plain.sasl.jaas.config": f'{plain} user_anna="secret";',
        "scram-sha-256.sasl.jaas.config": scram,
        "scram-sha-512.sasl.jaas.config": scram,
        "oauthbearer.sasl.jaas.config": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
        "scram-sha-256.connections.max.reauth.ms": str(SESSION),
    }
    named = {f"listener.name.{of}.{key}": value for of in listeners for key, value in settings.items()}
    return {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER", **named}


def key_store(directory: Path, certificate: Path) -> dict[str, str]:
    """A broker's settings for TLS with a certificate that is made now, for 127.0.0.1, and written to a file."""
    return {
        "ssl.keystore.location": str(_key_store(directory, certificate)),
        "ssl.keystore.password": "changeit",
        "ssl.keystore.type": "PKCS12",
    }


def by_scram(certificate: Path) -> dict[str, str]:
    """A client's properties for SASL_SSL as ``anna``, once she was introduced with this password."""
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificate),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "anna",
        "sasl.password": "secret",
    }


def _key_store(directory: Path, certificate: Path) -> Path:
    store = directory / "broker.p12"
    keytool = jdk.program("keytool")
    common = ["-alias", "broker", "-keystore", str(store), "-storepass", "changeit", "-storetype", "PKCS12"]
    pair = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=broker", "-ext", "SAN=ip:127.0.0.1", "-validity", "2"]
    quiet = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
    subprocess.run([str(keytool), *pair, *common], check=True, capture_output=True, env=quiet)
    export = [str(keytool), "-exportcert", "-rfc", "-file", str(certificate), *common]
    subprocess.run(export, check=True, capture_output=True, env=quiet)
    return store
