"""Word count that begins with history, on real Kafka, a real object store and Spark, every count verified.

Run by ``make demo-bootstrap``; a folder of Python files given as argument is read instead of the standard library. Half
of the lines are written, ``streamsapp bootstrap`` makes state of them, the other half is written, ``streamsapp run``
goes on. In the end the counts are read back with Spark from the object store, compared with a count made without the
library, and audited. Exit code 0 when all are equal. Everything it started ends with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import boto3
import orjson
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from confluent_kafka import Consumer, TopicPartition

import versitygw
from demo import PARTITIONS, ROOT, STREAMSAPP, client, count, create_topics, feed, main
from streamsapp.errors import StreamsError, UserInputError
from streamsapp.local.broker import EmbeddedBroker, free_port
from terminal import step

MANIFEST = ROOT / "examples" / "bootstrap-wordcount" / "streamsapp.yaml"
_ID = "bootstrap-wordcount"
_KEYS = ("demo", "demo-secret")
_TIMEOUT = 300.0

_READ = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
table = spark.read.format("streamsapp").option("manifest", sys.argv[1]).option("store", "counts").load()
table.select("key", "value").write.mode("overwrite").json(sys.argv[2])
spark.stop()
"""


def run(sources: Path, folder: Path) -> int:
    """From the first file to the verdict; what it writes goes into ``folder``."""
    texts, expected = count(sources)
    if len(texts) < 2:
        raise UserInputError(f"{sources} holds fewer than two Python files; name a folder that has some")
    with step("starting Kafka and an object store"):
        broker = EmbeddedBroker(folder / "kafka").start()
        bucket = S3Server(folder / "s3")
    try:
        manifest = local_manifest(MANIFEST, folder, broker.bootstrap_servers, bucket.endpoint)
        return _show(manifest, broker.bootstrap_servers, texts, expected)
    finally:
        bucket.stop()
        broker.stop()


def _show(manifest: Path, servers: str, texts: list[str], expected: Counter[str]) -> int:
    half = len(texts) // 2
    with step("writing half of the lines: history"):
        create_topics(servers)
        lines = feed(servers, texts[:half])
    print("  streamsapp bootstrap -f streamsapp.yaml", flush=True)
    print(f"  {_command('bootstrap', '-f', str(manifest)).strip()}", flush=True)
    with step("writing the other half, and running the application on it"):
        lines += feed(servers, texts[half:])
        _run_to_the_end(manifest, servers)
    with step("reading the counts as a table, with Spark"):
        counted = _table(manifest)
    different = [word for word in expected.keys() | counted.keys() if expected.get(word) != counted.get(word)]
    if different:
        print(
            f"{len(different):,} of {len(expected):,} words have a wrong count: {sorted(different)[:5]}",
            file=sys.stderr,
        )
        return 1
    print("  streamsapp audit -f streamsapp.yaml", flush=True)
    print(f"  {_command('audit', '-f', str(manifest)).strip()}")
    print(
        f"\n{len(expected):,} different words in {lines:,} lines: every count equals an independent count of the files."
    )
    return 0


def local_manifest(example: Path, folder: Path, servers: str, endpoint: str) -> Path:
    """An example's with the addresses of here; its secret is mounted in pods only."""
    text = example.read_text(encoding="utf-8")
    text = text.replace('"kafka:9092"', f'"{servers}"').replace("http://s3:9000", endpoint)
    text = text.replace("    secretRef: {name: s3-credentials}\n", "")
    path = folder / "streamsapp.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def environment() -> dict[str, str]:
    """With the credentials of the object store, and this Python for Spark's workers."""
    return {
        **os.environ,
        "AWS_ACCESS_KEY_ID": _KEYS[0],
        "AWS_SECRET_ACCESS_KEY": _KEYS[1],
        "AWS_REGION": "us-east-1",
        "PYSPARK_PYTHON": sys.executable,
    }


def _command(*arguments: str) -> str:
    """Returns the output of a command; its failure is the demo's."""
    return _output([str(STREAMSAPP), "--log-level", "warning", *arguments], arguments[0])


def _output(command: list[str], name: str) -> str:
    answer = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise StreamsError(f"{name} ended with {answer.returncode}:\n{answer.stdout[-2000:]}{answer.stderr[-4000:]}")
    return answer.stdout


def _run_to_the_end(manifest: Path, servers: str) -> None:
    state, log = manifest.parent / "state", manifest.parent / "app.log"
    command = [str(STREAMSAPP), "run", "-f", str(manifest), "--state-dir", str(state), "--http-port", "0"]
    with log.open("wb") as output:
        app = subprocess.Popen(command, env=environment(), stdout=output, stderr=output, start_new_session=True)
    try:
        group = Consumer({**client(servers), "group.id": _ID, "isolation.level": "read_committed"})
        for topic in ("lines", f"{_ID}-counts-repartition"):
            _wait(lambda topic=topic: _is_read(group, topic), app, log)  # type: ignore[misc]
        group.close()
    finally:
        app.terminate()  # takes last snapshots
        app.wait(60)


def _wait(holds: Callable[[], bool], app: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while not holds():
        if app.poll() is not None or time.monotonic() > deadline:
            raise StreamsError(f"streamsapp run did not get to the end:\n{log.read_text('utf-8', 'replace')[-4000:]}")
        time.sleep(0.5)


def _is_read(group: Consumer, topic: str) -> bool:
    """Says whether everything in a topic is committed. The last offset may be that of a transaction's mark."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    marks = 0 if topic == "lines" else 1
    ends = [group.get_watermark_offsets(each, timeout=30)[1] for each in partitions]
    return all(each.offset >= end - marks for each, end in zip(group.committed(partitions, 30), ends, strict=True))


def _table(manifest: Path) -> dict[str, int]:
    """The store, written by Spark as JSON."""
    target = manifest.parent / "table"
    _output([sys.executable, "-c", _READ, str(manifest), str(target)], "reading with Spark")
    rows = (orjson.loads(line) for path in target.glob("*.json") for line in path.read_bytes().splitlines())
    return {row["key"]: row["value"] for row in rows}


class S3Server:
    """A real S3 server with a bucket."""

    def __init__(self, folder: Path) -> None:
        (folder / "objects").mkdir(parents=True)
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        self._process = versitygw.start(folder / "objects", port, _KEYS, folder / "server.log")
        s3 = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=_KEYS[0],
            aws_secret_access_key=_KEYS[1],
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                s3.create_bucket(Bucket="streamsapp")
                return
            except BotoCoreError:
                if time.monotonic() > deadline:
                    self.stop()
                    raise StreamsError("the object store did not start") from None
                time.sleep(0.1)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


if __name__ == "__main__":
    sys.exit(main(run))
