"""A pod whose root file system is read-only, as Kubernetes runs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from instances import eventually, produce
from kafka_cluster import Kafka
from pods import Pods

#: Everything is read-only but two folders, which are named before the command.
ENCLOSURE = """
set -e
for folder in "$1" "$2"; do mount --bind "$folder" "$folder"; done
mount -o remount,bind,ro /
shift 2
exec "$@"
"""
UNSHARE = ("unshare", "--mount", "--propagation", "private")


def may_mount() -> bool:
    if os.geteuid() != 0:
        return False
    return not subprocess.call([*UNSHARE, "mount", "-o", "remount,bind,ro", "/"], stderr=subprocess.DEVNULL)


@pytest.mark.skipif(not may_mount(), reason="only root may mount file systems, and not in every container")
@pytest.mark.parametrize("instances", [1, 2])
def test_nothing_is_written_but_to_the_state_directory_and_the_temporary_one(
    kafka: Kafka, tmp_path: Path, instances: int
) -> None:
    topic = kafka.create_topic("words", partitions=2)
    pods = Pods(kafka.bootstrap_servers, kafka.unique("app"), topic, tmp_path)
    state, temporary = pods.next_directory / "state", tmp_path / "temporary"
    for folder in (state, temporary):
        folder.mkdir(parents=True)
    try:
        enclosure = (*UNSHARE, "sh", "-c", ENCLOSURE, "sh", str(state), str(temporary))
        pod = pods.start(instances, within=enclosure, TMPDIR=str(temporary), HOME="/nowhere")
        pod.wait_ready()
        produce(kafka, topic, [(b"a", b"", 1000), (b"a", b"", 1000)])
        eventually(lambda: pod.count("a") == 2, "the count")
        assert pod.terminate() == 0
        assert "Read-only file system" not in pod.log()
        assert any(state.iterdir())
        assert list(temporary.iterdir()) == [], "nothing is left behind"
    finally:
        pods.close()
