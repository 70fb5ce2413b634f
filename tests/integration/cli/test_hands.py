"""``streamsapp produce``, ``consume`` and ``topics`` on a real broker."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from instances import TIMEOUT, Instances, eventually, last_counts
from kafka_cluster import Kafka
from streamsapp.cli.main import main
from streamsapp.manifest.entrypoint import read_app
from streamsapp.serdes.murmur2 import partition_for

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: {application}}}
spec:
  topology: {{entrypoint: "{module}:topology"}}
  kafka: {{bootstrapServers: "{servers}"}}
  code:
    files:
      {module}.py: |
        from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder

        def by_length(topic, key, value, partitions):
            return {{"both": [0, 1], "text": "0"}}.get(key, [len(key) % partitions])

        text = Serdes.string()
        topology = StreamsBuilder()
        visits = topology.stream("{visits}", Consumed(text, Serdes.json()))
        counts = visits.group_by(lambda key, value: value["page"], Grouped("pages", text, Serdes.json()))
        counts.count(Materialized("counts")).to_stream().to("{totals}", Produced(text, Serdes.long(), by_length))
"""


class App:
    """A manifest and its topics."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.kafka = kafka
        self.visits, self.totals = kafka.create_topic("visits", 3), kafka.create_topic("totals", 3)
        self.id = kafka.unique("hands")
        self.file = folder / "app.yaml"
        module = self.id.replace("-", "_")
        names = {"application": self.id, "module": module, "servers": kafka.bootstrap_servers}
        self.file.write_text(MANIFEST.format(**names, visits=self.visits, totals=self.totals))


@pytest.fixture
def app(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setattr(sys, "path", list(sys.path))
    return App(kafka, tmp_path)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs a command in this process: exit code, output, messages."""
    # The log of instances that run here too goes where pytest has it.
    monkeypatch.setattr("streamsapp.cli.main.set_up_logging", lambda level, form: None)

    def command(*arguments: object, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin.encode())))
        capfdbinary.readouterr()
        code = main([str(each) for each in arguments])
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return command


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def has_lines(path: Path, count: int) -> bool:
    return len(path.read_text().splitlines()) == count


def parsed(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


def test_records_are_written_where_every_client_looks_for_their_keys(app: App, run: Run) -> None:
    written = [{"key": name, "value": {"page": name}, "timestamp": 5} for name in ("jane", "joe", "ann")]
    code, out, _ = run("produce", app.visits, "-f", app.file, "-o", "json", stdin=lines(*written))
    assert (code, json.loads(out)["written"]) == (0, 3)
    found = app.kafka.read(app.visits)
    assert {(message.key(), message.partition()) for message in found} == {
        (name, partition_for(name, 3)) for name in (b"jane", b"joe", b"ann")
    }
    code, out, _ = run("consume", app.visits, "-f", app.file)
    shown = [{name: line[name] for name in ("key", "value", "timestamp")} for line in parsed(out)]
    assert sorted(shown, key=str) == sorted(written, key=str)


def test_the_applications_own_partitioner_is_asked(app: App, run: Run) -> None:
    code, out, _ = run("produce", app.totals, "-f", app.file, stdin=lines({"key": "four", "value": 1}))
    assert (code, out) == (0, f"{app.totals}: 1 record written (partition 1: 1)\n")
    for key, chosen in (("both", "[0, 1]"), ("text", "'0'")):
        code, _, err = run("produce", app.totals, "-f", app.file, stdin=lines({"key": key, "value": 1}))
        assert code == 2
        assert f"line 1: partition: the application's partitioner chose {chosen}; name one partition in the line" in err


def test_a_wrong_line_ends_it_and_what_was_written_before_it_is_told(app: App, run: Run) -> None:
    stdin = lines({"key": "a", "value": 1}, {"key": "b", "value": "one"}, {"key": "c", "value": 3})
    code, out, err = run("produce", app.totals, "-f", app.file, stdin=f"\n{stdin}")
    assert (code, out) == (2, "")
    assert err == (
        'line 3: value: "one" cannot be written as long: got str, the serde is long; declare one that fits, e.g. '
        "Serdes.string(); "
        f"{app.totals}: 1 record written (partition 1: 1)\n"
    )
    assert [message.key() for message in app.kafka.read(app.totals)] == [b"a"]


def test_what_the_broker_refuses_is_told_by_line(app: App, run: Run) -> None:
    small = app.kafka.create_topic("small", config={"max.message.bytes": "1000"})
    stdin = lines({"value": "a"}, {"value": "x" * 5000})
    code, _, err = run("produce", small, "--bootstrap-servers", app.kafka.bootstrap_servers, stdin=stdin)
    assert code == 1
    assert "line 2 was not written: Broker: Message size too large" in err
    assert len(app.kafka.read(small)) + err.count("line 1 was not written") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["produce", "{id}-counts-changelog", "-f", "{file}"], "what is written there changes its state"),
        (["produce", "elsewhere", "-f", "{file}"], "elsewhere: no topic of"),
        (["produce", "elsewhere", "--bootstrap-servers", "{servers}"], "elsewhere: there is no such topic"),
        (["produce", "x", "--bootstrap-servers", "{servers}", "--embedded"], "--embedded: needs -f app.yaml"),
        (["produce", "{visits}", "-f", "{file}", "--value-serde", "lang"], "--value-serde: expected a serde"),
        (["produce", "{visits}", "nothing.jsonl", "-f", "{file}"], "nothing.jsonl: cannot be read"),
        (["consume", "{visits}", "-f", "{file}", "--embedded"], "no `streamsapp local` runs it here"),
        (["consume", "{visits}", "-f", "{file}", "--from", "soon"], "--from: expected beginning, latest"),
        (["consume", "{visits}", "-f", "{file}", "--partition", "3"], "--partition: 3 is none of"),
        (["consume", "{visits}", "-f", "{file}", "--max", "0"], "--max: expected an integer ≥ 1, got 0"),
        (["consume", "{visits}", "--property", "a"], "--property: expected KEY=VALUE, got 'a'"),
        (["consume", "{visits}"], "give -f app.yaml, or the address of a broker"),
    ],
)
def test_wrong_input_is_told_with_the_remedy(app: App, run: Run, arguments: list[str], told: str) -> None:
    names = {"file": app.file, "id": app.id, "visits": app.visits, "servers": app.kafka.bootstrap_servers}
    code, out, err = run(*(each.format(**names) for each in arguments))
    assert (code, out) == (2, "")
    assert told in err


def test_it_is_chosen_where_reading_begins_and_ends(app: App, run: Run) -> None:
    topic = app.kafka.create_topic("numbered", 2)
    for partition in (0, 1):
        app.kafka.produce(topic, [(None, str(number).encode()) for number in range(5)], partition)
    servers = ("--bootstrap-servers", app.kafka.bootstrap_servers)

    def values(*options: str) -> list[int]:
        code, out, _ = run("consume", topic, *servers, *options)
        assert code == 0
        return sorted(int(line["value"]) for line in parsed(out))

    assert values("--partition", "1") == [0, 1, 2, 3, 4]
    assert values("--from", "3") == [3, 3, 4, 4]
    assert values("--from=-1") == [4, 4]
    assert values("--from=-100", "--partition", "0", "--max", "2") == [0, 1]
    assert values("--from", "99") == []
    assert values("--from", "2020-01-01") == sorted([*range(5), *range(5)])
    assert values("--from", "2099-01-01") == []


def test_records_of_aborted_transactions_are_not_shown_and_markers_end_nothing(app: App, run: Run) -> None:
    topic = app.kafka.create_topic("transactions")
    producer = Producer({"bootstrap.servers": app.kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT)
    for value, end in ((b"no", producer.abort_transaction), (b"yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(TIMEOUT)
        end(TIMEOUT)
    # The commit is answered before its marker is written.
    eventually(lambda: len(app.kafka.read(topic)) == 1, "the end of the last transaction")
    code, out, _ = run("consume", topic, "--bootstrap-servers", app.kafka.bootstrap_servers)
    assert (code, [line["value"] for line in parsed(out)]) == (0, ["yes"])


def test_following_shows_what_comes_until_it_is_interrupted(app: App, tmp_path: Path) -> None:
    topic = app.kafka.create_topic("followed")
    command = [sys.executable, "-m", "streamsapp.cli.main", "consume", topic, "--bootstrap-servers"]
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen([*command, app.kafka.bootstrap_servers, "--follow"], stdout=out)
    for count in (1, 2, 3):
        app.kafka.produce(topic, [(None, str(count).encode())])
        eventually(partial(has_lines, tmp_path / "out", count))
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(TIMEOUT) == 0
    assert [line["value"] for line in parsed((tmp_path / "out").read_text())] == ["1", "2", "3"]


def test_topics_are_told_with_roles_sizes_and_lag(app: App, run: Run, instances: Instances) -> None:
    pages = [{"key": "jane", "value": {"page": page}} for page in ("a", "b", "a")]
    assert run("produce", app.visits, "-f", app.file, stdin=lines(*pages))[0] == 0
    code, out, _ = run("topics", "-f", app.file, "-o", "json")
    rows = {row.pop("topic"): row for row in json.loads(out)}
    changelog, repartition = f"{app.id}-counts-changelog", f"{app.id}-pages-repartition"
    assert code == 0
    assert all(row.pop("exact") for row in rows.values())
    assert rows == {
        app.visits: {"roles": ["reads"], "partitions": 3, "records": 3, "lag": 3, "key": "string", "value": "json"},
        app.totals: {"roles": ["writes"], "partitions": 3, "records": 0, "lag": None, "key": "string", "value": "long"},
        changelog: {"roles": ["owns"], **dict.fromkeys(("partitions", "records", "lag")), "key": "string",
                    "value": "long"},
        repartition: {"roles": ["owns"], **dict.fromkeys(("partitions", "records", "lag")), "key": "string",
                      "value": "json"},
    }  # fmt: skip

    _, topology = read_app(app.file)
    instance = instances.start(topology, instances.config(app.id))

    def caught_up() -> bool:
        code, out, _ = run("topics", "-f", app.file, "-o", "json")
        if code:
            return False  # a busy broker answers late
        rows = {row["topic"]: row for row in json.loads(out)}
        read, own = rows[app.visits], rows[repartition]
        told = read["lag"] == 0 and own["partitions"] == 3 and own["lag"] == 0 and rows[app.totals]["records"] == 3
        # A record that was read is counted later: that is another task.
        return told and last_counts(app.kafka.read(app.totals)) == {b"a": 2, b"b": 1}

    eventually(caught_up)
    assert instance.close()
    code, out, _ = run("consume", changelog, "-f", app.file)
    assert {line["key"]: line["value"] for line in parsed(out)} == {"a": 2, "b": 1}
    text = run("topics", "-f", app.file)[1].splitlines()
    assert text[0].split() == ["TOPIC", "ROLE", "PARTITIONS", "RECORDS", "LAG", "KEY", "VALUE"]
    assert text[1].split()[:5] == [app.visits, "reads", "3", "3", "0"]
