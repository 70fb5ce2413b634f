"""Certificates that are renewed in their files, as Strimzi and cert-manager do it: an instance goes on by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from instances import Instances, eventually, produce
from kafka_cluster import START_TIMEOUT, Kafka
from streamsapp import ClientState, StreamsBuilder
from streamsapp.local.broker import EmbeddedBroker, free_port

#: The test waits until it is over: it is short, and long enough for a busy machine.
SESSION_MS = "12000"


class Secret:
    """A Secret as a kubelet mounts it: files that lead through ``..data``, which is pointed elsewhere at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._number = 0

    def put(self, authority: trustme.CA, issued: trustme.LeafCert) -> None:
        self._number += 1
        inside = self._folder / f"..{self._number}"
        inside.mkdir()
        authority.cert_pem.write_to_path(str(inside / "ca.crt"))
        issued.private_key_pem.write_to_path(str(inside / "tls.key"))
        issued.cert_chain_pems[0].write_to_path(str(inside / "tls.crt"))
        (self._folder / "..new").symlink_to(inside.name)
        (self._folder / "..new").replace(self._folder / "..data")
        for name in ("ca.crt", "tls.crt", "tls.key") if self._number == 1 else ():
            (self._folder / name).symlink_to(f"..data/{name}")

    @property
    def properties(self) -> dict[str, str]:
        named = {"ssl.ca.location": "ca.crt", "ssl.certificate.location": "tls.crt", "ssl.key.location": "tls.key"}
        return {"security.protocol": "SSL"} | {key: str(self._folder / name) for key, name in named.items()}


class MutualTlsBroker(EmbeddedBroker):
    """A broker that wants certificates of the clients' authority, beside a listener without questions."""

    def __init__(self, directory: Path, own: trustme.CA) -> None:
        self.tls_port, self._folder = free_port(), directory
        super().__init__(directory / "kafka", start_timeout=START_TIMEOUT)
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},SSL://127.0.0.1:{self.tls_port}"
        issued = own.issue_cert("127.0.0.1")
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (directory / "broker.pem").write_bytes(pem + b"".join(each.bytes() for each in issued.cert_chain_pems))
        self._properties = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "clients.pem"),
            "ssl.client.auth": "required",
        }

    def believe(self, clients: trustme.CA) -> None:
        """From the next start on."""
        (self._folder / "clients.pem").write_bytes(clients.cert_pem.bytes())


@pytest.mark.parametrize("client", ["streamsapp", pytest.param("librdkafka", marks=pytest.mark.long)])
def test_an_instance_goes_on_when_its_certificates_are_renewed_and_says_so_until_then(
    tmp_path: Path, client: str
) -> None:
    own, before, after = trustme.CA(), trustme.CA(), trustme.CA()
    secret = Secret(tmp_path / "secret")
    secret.put(own, before.issue_cert("me"))
    broker = MutualTlsBroker(tmp_path, own)
    broker.believe(before)
    with broker:
        kafka = Kafka(broker.bootstrap_servers)
        instances = Instances(kafka, tmp_path / "state")
        try:
            source, sink = kafka.create_topic("source"), kafka.create_topic("sink")
            builder = StreamsBuilder()
            builder.stream(source).group_by_key().count("counts").to_stream().to(sink)
            properties = {**secret.properties, "session.timeout.ms": SESSION_MS}
            config = instances.config(bootstrap_servers=f"127.0.0.1:{broker.tls_port}", client=client, kafka=properties)
            instance = instances.start(builder.build(), config)
            produce(kafka, source, [(b"k", b"v", 1000)] * 5)
            eventually(lambda: len(kafka.read(sink)) == 5)

            broker.believe(after)
            broker.restart()
            eventually(lambda: "refuses this client by TLS" in str(instance.status()["outages"]))
            assert "ssl.certificate.location" in str(instance.status()["outages"])
            # The session ends: an operator may restart it, as there is nothing that it could do.
            eventually(lambda: instance.status()["generation"] is None and not instance.status()["tasks"])
            told = instance.status()
            assert (told["state"], told["ready"], told["outages"][0]["refused"]) == ("REBALANCING", False, True)

            secret.put(own, after.issue_cert("me"))
            produce(kafka, source, [(b"k", b"v", 1001)] * 5)
            eventually(lambda: len(kafka.read(sink)) == 10)
            eventually(lambda: instance.state is ClientState.RUNNING and not instance.status()["outages"])
        finally:
            instances.close()
