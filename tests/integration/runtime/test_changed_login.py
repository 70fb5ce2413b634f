"""A login that the broker no longer takes, while the mounted Secret has another one already."""

from __future__ import annotations

from pathlib import Path

from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from secured_broker import SecuredBroker
from streamsapp import StreamsBuilder, StreamsConfig
from streamsapp.cli.secret_routes import REFUSED, health_of, status_of
from streamsapp.manifest.kafka_secret import KafkaSecret
from streamsapp.manifest.mounts import secret_properties


def test_a_process_with_a_refused_login_is_unhealthy_once_there_is_another_one_and_begins_anew_with_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "sasl.username").write_text("anna")
    (folder / "sasl.password").write_text("one")
    broker = SecuredBroker(tmp_path)
    with broker:
        broker.introduce("anna", "one")
        kafka = Kafka(broker.bootstrap_servers)
        instances = Instances(kafka, tmp_path / "state")
        source, sink, application = kafka.create_topic("source"), kafka.create_topic("sink"), kafka.unique("app")
        builder = StreamsBuilder()
        builder.stream(source).group_by_key().count("counts").to_stream().to(sink)

        def config() -> StreamsConfig:
            by_password = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
            properties = by_password | secret_properties(folder)
            return instances.config(application, bootstrap_servers=f"127.0.0.1:{broker.sasl_port}", kafka=properties)

        try:
            secret, instance = KafkaSecret(folder), instances.start(builder.build(), config())
            produce(kafka, source, [(b"k", b"v", 1000)] * 5)
            eventually(lambda: len(kafka.read(sink)) == 5)
            assert status_of(instance, secret)["kafkaSecretChanged"] is False

            broker.introduce("anna", "two")  # sessions end soon, and are not renewed
            eventually(lambda: any(outage.get("refused") for outage in instance.status()["outages"]))
            assert health_of(instance, secret)[0], "there is nothing better to begin with"
            (folder / "sasl.password").write_text("two")
            assert health_of(instance, secret) == (False, REFUSED)
            assert status_of(instance, secret)["kafkaSecretChanged"] is True

            instance.close(1)
            produce(kafka, source, [(b"k", b"v", 1001)] * 5)
            anew = instances.start(builder.build(), config())
            eventually(lambda: len(kafka.read(sink)) == 10)
            assert health_of(anew, KafkaSecret(folder))[0]
        finally:
            instances.close()
