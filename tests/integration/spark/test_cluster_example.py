"""The example of docs/spark.md for ``spark://``: a master and workers, state in S3, credentials on the workers only."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from instances import Instances, produce
from kafka_cluster import Kafka
from s3_server import BUCKET, S3Server
from spark_apps import App, finished
from spark_counting import standalone

#: A master, two workers, and for each command a driver and two executors: each is a Java process.
pytestmark = [pytest.mark.timeout(3600), pytest.mark.long]

_EXAMPLES = Path(__file__).parents[3] / "examples"
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def example(instances: Instances, kafka: Kafka, s3: S3Server) -> tuple[App, str, str]:
    """The application of examples/wordcount-spark, whose code comes with the manifest, and its topics."""
    lines, counts = (kafka.create_topic(name, 2) for name in ("lines", "counts"))
    manifest: dict[str, Any] = yaml.safe_load((_EXAMPLES / "wordcount-spark" / "streamsapp.yaml").read_text())
    code = {
        name: text.replace('"lines"', f'"{lines}"').replace('to("counts"', f'to("{counts}"')
        for name, text in manifest["spec"]["code"]["files"].items()
    }
    spec = {
        "engine": "spark",
        "spark": {"trigger": "availableNow"},
        "topology": manifest["spec"]["topology"],
        "code": {"files": code},
    }
    remote = {"url": f"s3://{BUCKET}/app", "endpoint": s3.endpoint}
    return App(instances, kafka.unique("example"), "", remote_state=remote, spec=spec), lines, counts


def test_the_word_count_is_bootstrapped_and_run_on_a_standalone_cluster(
    instances: Instances, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")  # its Java has none of the credentials below
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with S3Server(tmp_path / "s3") as s3:
        for name in _CREDENTIALS:
            monkeypatch.setenv(name, (s3.credentials / name).read_text().strip())
        app, lines, counts = example(instances, kafka, s3)

        def command(*arguments: str) -> tuple[int, str, str]:
            return finished(app.command(*arguments), 900.0)  # executors start anew for each

        history = ["one two two"] * 20
        produce(kafka, lines, [(b"k%d" % n, line.encode(), 1_000 + n) for n, line in enumerate(history)])
        with standalone(tmp_path, 2) as master:
            options = (
                "--master",
                master,
                "--conf",
                "spark.driver.host=127.0.0.1",
                "--conf",
                "spark.driver.memory=512m",
                "--conf",
                "spark.executor.memory=512m",
            )
            wrong = ("--conf", "spark.executorEnv.AWS_SECRET_ACCESS_KEY=another")
            code, _, errors = command("bootstrap", *options, *wrong)
            assert code == 1, errors[-6000:]
            assert re.search(r"on \S+: task [01]_[01]: .*(denied|SignatureDoesNotMatch|403)", errors, re.IGNORECASE), (
                errors[-6000:]
            )

            code, said, errors = command("bootstrap", *options)
            assert code == 0, errors[-6000:]
            assert "4 tasks" in said
            live = ["two three"] * 10
            produce(kafka, lines, [(b"k%d" % n, line.encode(), 2_000 + n) for n, line in enumerate(live)])
            state = ("--state-dir", str(tmp_path / "state"), "--http-port", "0")
            code, _, errors = command("run", *options, *state)
            assert code == 0, errors[-6000:]
    results = {each.key(): int.from_bytes(each.value() or b"", "big") for each in app.read(counts)}
    counted = Counter(" ".join(history + live).encode().split())
    assert results == {word: count for word, count in counted.items() if word != b"one"}
