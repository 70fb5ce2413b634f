"""``streamsapp snapshots`` on real databases, in a real S3 store and in a folder."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Checkpoint, Options, Rdict

from checkpoints import chain_of, content_of
from s3_server import BUCKET, S3Server
from streamsapp.cli.main import main
from streamsapp.clock import SystemClock
from streamsapp.config import RemoteStateConfig
from streamsapp.local.broker import free_port
from streamsapp.record import TaskId
from streamsapp.remote.object_store import ObjectStore
from streamsapp.remote.object_store_factory import open_store
from streamsapp.remote.snapshot import Snapshot
from streamsapp.remote.snapshot_fetch import fetch
from streamsapp.remote.snapshot_writer import SnapshotWriter

TASKS = (TaskId(0, 0), TaskId(0, 3))

MANIFEST = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {{name: orders}}
spec:
  topology: {{entrypoint: "not_imported:topology"}}
{remote_state}
"""


class Remote:
    """An application's manifest, and the store it names."""

    def __init__(self, folder: Path, url: str, endpoint: str | None) -> None:
        self.folder = folder
        self.url = url
        self.objects: ObjectStore = open_store(RemoteStateConfig(url=url, endpoint=endpoint))
        self.manifest = folder / "app.yaml"
        where = f'  remoteState: {{url: "{url}"' + (f', endpoint: "{endpoint}"}}' if endpoint else "}")
        self.manifest.write_text(MANIFEST.format(remote_state=where), encoding="utf-8")

    def run(self, action: str, *arguments: str) -> int:
        return main(["snapshots", action, "-f", str(self.manifest), *arguments])

    def publish(self, task_id: TaskId, times: int = 2) -> list[Snapshot]:
        """Of a database that grows; the values do not compress."""
        writer = SnapshotWriter(chain_of(self.objects, task_id=task_id), "pod-1", SystemClock())
        writer.claim()
        name = f"{task_id}-{writer.epoch}"
        database = Rdict(str(self.folder / name), Options(raw_mode=True))
        published = []
        for number in range(1, times + 1):
            for key in range(100):
                database[f"{number}-{key}".encode()] = bytes((key * number * byte) % 251 for byte in range(200))
            checkpoint = self.folder / f"{name}-{number}"
            Checkpoint(database).create_checkpoint(str(checkpoint))
            snapshot = writer.publish(checkpoint, content_of(100 * number))
            assert snapshot is not None
            published.append(snapshot)
        database.close()
        return published

    def key(self, snapshot: Snapshot, suffix: str) -> str:
        file = [file for file in snapshot.files if file.name.endswith(suffix)][-1]
        return chain_of(self.objects, task_id=snapshot.task_id).file_key(file)

    def replace(self, key: str, data: bytes) -> None:
        source = self.folder / "replacement"
        source.write_bytes(data)
        self.objects.upload(key, source)


@pytest.fixture(params=["file", "s3"])
def remote(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    if request.param == "file":
        (tmp_path / "store").mkdir()
        yield Remote(tmp_path, f"file://{tmp_path}/store", None)
        return
    server: S3Server = request.getfixturevalue("s3_server")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, (server.credentials / name).read_text(encoding="utf-8").strip())
    yield Remote(tmp_path, f"s3://{BUCKET}/{tmp_path.name}", server.endpoint)


def output(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_an_application_without_snapshots_has_none(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    assert remote.run("list") == 0
    assert capsys.readouterr().out == f"no snapshots in {remote.url}/orders\n"
    assert remote.run("list", "-o", "json") == 0
    assert output(capsys) == []
    assert remote.run("verify") == 0


def test_lists_the_newest_snapshot_of_each_task(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    newest = {str(task_id): remote.publish(task_id)[-1] for task_id in TASKS}

    assert remote.run("list") == 0
    titles, *lines = capsys.readouterr().out.splitlines()
    assert titles.split() == ["TASK", "EPOCH", "NUMBER", "OFFSETS", "BYTES", "NEW", "AGE", "BEHIND", "INSTANCE"]
    assert [line.split()[:4] for line in lines] == [["0_0", "1", "3", "counts=200"], ["0_3", "1", "3", "counts=200"]]

    assert remote.run("list", "--task", "0_3", "-o", "json") == 0
    (row,) = output(capsys)
    assert row["bytes"] == newest["0_3"].total_bytes
    assert 0 < row["newBytes"] < row["bytes"]
    assert 0 <= row["ageSeconds"] < 300
    assert row["behind"] is None, "the manifest names no broker"


def test_lists_without_kafka_where_none_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store").mkdir()
    remote = Remote(tmp_path, f"file://{tmp_path}/store", None)
    remote.publish(TASKS[0])
    port = free_port()
    with remote.manifest.open("a") as file:
        file.write(f"  kafka: {{bootstrapServers: 127.0.0.1:{port}}}\n")
    assert remote.run("list") == 0
    said = capsys.readouterr()
    _, line = said.out.splitlines()
    assert line.split()[-2:] == ["-", "pod-1"]
    told = "Kafka does not say whether snapshots have all that is committed: nothing answers at "
    assert f"{told}127.0.0.1:{port} (" in said.err


def test_shows_what_a_snapshot_holds(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    first, newest = remote.publish(TASKS[0])

    assert remote.run("show") == 0
    text = capsys.readouterr().out
    assert all(file.name in text for file in newest.files)
    assert "counts: orders-counts-changelog-3 up to offset 200" in text

    assert remote.run("show", "--task", "0_0", "--number", "2", "-o", "json") == 0
    (shown,) = output(capsys)
    assert shown["number"] == first.number
    assert [file["sha256"] for file in shown["files"]] == [file.sha256 for file in first.files]


def test_what_is_sound_is_found_sound(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    for task_id in TASKS:
        remote.publish(task_id)

    assert remote.run("verify", "--all") == 0
    assert capsys.readouterr().out.startswith("all sound: 6 snapshots of 2 tasks, ")
    assert remote.run("verify", "-o", "json") == 0
    verdict = output(capsys)
    assert (verdict["tasks"], verdict["snapshots"], verdict["faults"]) == (2, 2, [])
    assert verdict["bytes"] > 20_000


def test_each_fault_has_a_line(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    _, newest = remote.publish(TASKS[0])
    _, other = remote.publish(TASKS[1])
    table = remote.key(newest, ".sst")
    data = bytearray(remote.objects.read(table, 1 << 20))
    data[100] ^= 1
    remote.replace(table, bytes(data))
    remote.objects.delete([remote.key(newest, "CURRENT")])
    remote.replace(remote.key(other, ".sst"), b"short")
    remote.replace(chain_of(remote.objects, task_id=TASKS[1]).manifest_key(4), b"rubbish")

    assert remote.run("verify") == 1

    *faults, verdict = capsys.readouterr().out.splitlines()
    assert verdict.startswith("4 faults in 2 snapshots of 2 tasks")
    text = "\n".join(faults)
    assert f"snapshot 3 of task 0_0: {Path(table).name.rpartition('-')[2]}: " in text
    assert "snapshot 3 of task 0_0: CURRENT: " in text
    assert "snapshot 3 of task 0_3: " in text
    assert "snapshot 4 of task 0_3 of 'orders' is damaged" in text


def test_only_all_snapshots_show_what_is_wrong_with_an_older_one(
    remote: Remote, capsys: pytest.CaptureFixture[str]
) -> None:
    older, _ = remote.publish(TASKS[0])
    chain = chain_of(remote.objects, task_id=TASKS[0])
    remote.objects.delete([remote.key(older, "MANIFEST-000005"), chain.manifest_key(1)])
    for _ in range(2):
        SnapshotWriter(chain, "pod-2", SystemClock()).claim()
    remote.objects.delete([chain.manifest_key(4)])

    assert remote.run("verify", "--all") == 1

    *faults, _ = capsys.readouterr().out.splitlines()
    assert [fault.partition(": ")[0] for fault in faults] == ["task 0_0", "snapshot 2 of task 0_0"]
    assert "the manifest of snapshot 4 is missing" in faults[0]


def test_a_restored_database_has_what_was_written(remote: Remote, tmp_path: Path) -> None:
    remote.publish(TASKS[0])
    _, newest = remote.publish(TASKS[0], times=2)
    target = tmp_path / "restored"

    chain = chain_of(remote.objects, task_id=TASKS[0])
    assert fetch(chain, target, lambda snapshot: None, 1 << 30) == newest

    database = Rdict(str(target / "rocksdb"), Options(raw_mode=True))
    assert len(list(database.keys())) == 200
    assert database[b"2-99"] == bytes((99 * 2 * byte) % 251 for byte in range(200))
    database.close()


def test_a_manifest_without_remote_state_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "app.yaml"
    manifest.write_text(MANIFEST.format(remote_state=""), encoding="utf-8")

    assert main(["snapshots", "list", "-f", str(manifest)]) == 2
    assert "app.yaml: spec.remoteState: is not there" in capsys.readouterr().err


def test_a_number_without_a_task_is_wrong_input(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    assert remote.run("show", "--number", "1") == 2
    assert "add --task" in capsys.readouterr().err


def test_a_task_that_has_none_is_named(remote: Remote, capsys: pytest.CaptureFixture[str]) -> None:
    assert remote.run("verify", "--task", "7_7") == 1
    assert f"task 7_7 has no snapshots in {remote.url}/orders" in capsys.readouterr().err


def test_a_store_that_is_out_of_reach_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remote = Remote(tmp_path, f"file://{tmp_path}/not-mounted", None)

    assert remote.run("list") == 1
    assert "not-mounted" in capsys.readouterr().err


def test_a_machine_without_room_for_a_file_is_told_where_to_make_some(
    remote: Remote, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.publish(TASKS[0])
    monkeypatch.setattr(tempfile, "tempdir", str(remote.folder / "nowhere"))

    assert remote.run("verify") == 1
    assert "set TMPDIR" in capsys.readouterr().err
