"""``streamsapp run`` with the manifest's handlers: one bad record ends no application."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from instances import TIMEOUT, eventually
from kafka_cluster import Kafka
from streamsapp.local.broker import EmbeddedBroker

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: {name}}}
spec:
  topology: {{entrypoint: "bad_records:topology"}}
  kafka: {{bootstrapServers: "{servers}"}}
  processing: {{defaultKeySerde: string, defaultValueSerde: json, standbyReplicas: 0}}
  errors:
    deserialization: dead_letter
    processing: "bad_records:tolerate_small"
    deadLetterTopic: {dead}
  topics: {{properties: {{segment.bytes: 20000000}}}}
  code:
    files:
      bad_records.py: |
        from streamsapp import StreamsBuilder
        from streamsapp.processor.handlers import Response

        def tolerate_small(context, exception):
            return Response.CONTINUE if len(context.value) < 10 else Response.DEAD_LETTER

        def inverse(value):
            return 1 / value["n"]

        topology = StreamsBuilder()
        topology.stream("{source}").map_values(inverse).to("{sink}")
"""


@pytest.fixture
def topics(kafka: Kafka) -> dict[str, str]:
    return {name: kafka.create_topic(name) for name in ("source", "sink", "dead")}


@pytest.fixture
def command(tmp_path: Path, kafka: Kafka, broker: EmbeddedBroker, topics: dict[str, str]) -> Iterator[None]:
    text = MANIFEST.format(name=kafka.unique("bad-records"), servers=broker.bootstrap_servers, **topics)
    (tmp_path / "app.yaml").write_text(text)
    arguments = ["run", "-f", "app.yaml", "--http-port", "0", "--state-dir", "state"]
    process = subprocess.Popen([sys.executable, "-m", "streamsapp.cli.main", *arguments], cwd=tmp_path)
    yield
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT) == 0


@pytest.mark.usefixtures("command")
def test_the_answer_of_the_manifest_decides_on_each_bad_record(kafka: Kafka, topics: dict[str, str]) -> None:
    small, large = b'{"n": 0}', b'{"n": 0, "more": 1}'
    records = [(b"k", b'{"n": 2}'), (b"k", b"no json"), (b"k", small), (b"k", large), (b"k", b'{"n": 4}')]
    kafka.produce(topics["source"], records)

    # A transaction that is committed is seen in one topic before it is in another.
    eventually(lambda: all(len(kafka.read(topics[each])) == 2 for each in ("sink", "dead")), "results and letters")

    assert [message.value() for message in kafka.read(topics["sink"])] == [b"0.5", b"0.25"]
    letters = kafka.read(topics["dead"])
    assert [message.value() for message in letters] == [b"no json", large]
    told = [dict(message.headers() or ())["__streams.errors.exception"] for message in letters]
    assert told == [b"msgspec.DecodeError", b"ZeroDivisionError"]
