"""Word count as a Spark query, on real Kafka and a real object store, every count verified.

Run by ``make demo-spark``; a folder of Python files given as argument is read instead of the standard library. Every
line is written to a topic, ``examples/wordcount-spark/streamsapp.yaml`` runs with ``streamsapp run`` and Spark in local
mode. The last count of each word is compared with a count made without the library. On a terminal the query stays until
Enter is pressed, for a look at Spark's pages. Exit code 0 when all are equal. Everything it started ends with it.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson

from bootstrap_demo import S3Server, environment, local_manifest
from demo import ROOT, OutputTopic, application, count, create_topics, feed, follow, main, report
from streamsapp.local.broker import EmbeddedBroker
from terminal import step

MANIFEST = ROOT / "examples" / "wordcount-spark" / "streamsapp.yaml"


def run(sources: Path, folder: Path) -> int:
    """From the first file to the verdict; what it writes goes into ``folder``."""
    texts, expected = count(sources)
    with step("starting Kafka and an object store"):
        broker = EmbeddedBroker(folder / "kafka").start()
        bucket = S3Server(folder / "s3")
    servers = broker.bootstrap_servers
    try:
        with step("writing every line to the topic lines"):
            create_topics(servers)
            lines = feed(servers, texts)
        manifest = local_manifest(MANIFEST, folder, servers, bucket.endpoint)
        print(f"  streamsapp run -f {MANIFEST.relative_to(ROOT)}", flush=True)
        with closing(OutputTopic(servers)) as output:
            with application(servers, folder, manifest, environment()) as app:
                pages = app.wait_for(r"Spark's pages are on (\S+)")
                print(f"  Spark's pages: {pages}/StreamingQuery", flush=True)
                seconds = follow(output, app, expected.total())
                print(f"  Spark ran {_jobs(pages)} jobs for it", flush=True)
                if sys.stdin.isatty():
                    input("  everything is counted; Enter ends the query ")
            output.read_rest()
            return report(expected, output.counts(), lines, seconds)
    finally:
        bucket.stop()
        broker.stop()


def _jobs(pages: str) -> int:
    """The number of jobs, as Spark's own pages show it."""
    application_id = _told(f"{pages}/api/v1/applications")[0]["id"]
    return len(_told(f"{pages}/api/v1/applications/{application_id}/jobs"))


def _told(address: str) -> Any:
    with urlopen(address, timeout=60) as answer:  # noqa: S310
        return orjson.loads(answer.read())


if __name__ == "__main__":
    sys.exit(main(run))
