"""A local file that is damaged, with remote state: mended from what is whole, and never made a snapshot of."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

import pytest

from instances import Instances, eventually
from remote_state import Remote
from streamsapp import ClientState
from streamsapp.runtime.remote_state import task_snapshots

TOLD = "wiped and restored"


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def flip_a_bit_of_each_table(remote: Remote) -> None:
    """In its first block, which has keys."""
    directory = remote.config().state_dir / remote.application_id / "0_0" / "rocksdb"
    tables = [path for path in directory.glob("*.sst") if path.stat().st_size > 5_000]
    assert tables
    for path in tables:
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.unlink()  # the object store may have a link to it
        path.write_bytes(data)


def with_state_on_disk(remote: Remote) -> None:
    """Two snapshots and a closed instance."""
    instance = remote.start()
    for _ in range(2):
        remote.feed()
        remote.counted()
        assert instance.snapshot()
    assert instance.close()


def test_a_file_damaged_on_disk_is_mended_from_the_last_snapshot_and_not_published(
    instances: Instances, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    remote = Remote(instances, guarantee, interval=3600)
    with_state_on_disk(remote)
    flip_a_bit_of_each_table(remote)

    number = remote.chain().numbers()[0]
    instance = remote.start()
    eventually(lambda: remote.chain().numbers()[0] > number, "the claim")
    eventually(lambda: instance.snapshot(5), "a snapshot of what is whole")
    remote.feed()
    remote.counted()
    eventually(lambda: instance.snapshot(5))

    assert caplog.text.count("has damaged files that must not be published") == 1
    assert caplog.text.count(TOLD) == 1
    assert "begins with snapshot" in caplog.text
    assert instance.healthy()[0]
    assert instance.close()
    assert remote.local_counts() == remote.truth
    if guarantee == "exactly_once":
        remote.assert_exact()


def test_snapshots_of_a_damaged_file_are_refused_and_an_older_one_or_the_changelog_is_used(
    instances: Instances, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one version of the runtime wrote them, which did not look."""

    def believe(files: Collection[Path], scratch: Path) -> None:
        """Nothing is looked at."""

    remote = Remote(instances, interval=3600)
    with_state_on_disk(remote)
    flip_a_bit_of_each_table(remote)
    with monkeypatch.context() as unverified:
        unverified.setattr(task_snapshots, "verify", believe)
        instance = remote.start()
        eventually(lambda: instance.state is ClientState.RUNNING and instance.snapshot(5))
        assert instance.close()
    remote.lose_disk()
    caplog.clear()

    instance = remote.start()
    remote.feed()
    remote.counted()
    eventually(lambda: instance.snapshot(5))

    assert "is damaged, a task that used it found out" in caplog.text
    assert caplog.text.count(TOLD) <= 2
    assert instance.close()
    assert remote.local_counts() == remote.truth
    remote.assert_exact()
    remote.lose_disk()
    caplog.clear()
    again = remote.start()
    remote.feed()
    remote.counted()
    assert TOLD not in caplog.text, "what was published since is whole"
    assert again.close()
    remote.assert_exact()
