"""Where ``streamsapp local`` keeps snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manifests import app
from streamsapp.cli.arguments import snapshots_of, with_remote_state
from streamsapp.cli.local import own_remote_state
from streamsapp.config import RemoteStateConfig
from streamsapp.manifest.to_config import to_config

NAMED = {"remoteState": {"url": "s3://bucket/prefix"}}


@pytest.mark.parametrize(("spec", "embedded"), [({}, False), ({}, True), (NAMED, True)])
def test_snapshots_go_to_a_folder_beside_the_broker(
    spec: dict[str, Any], embedded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    url = own_remote_state(app(**spec), embedded, Path("my data"))

    made = to_config(with_remote_state(app(**spec), url)).remote_state
    assert made is not None
    assert made.location == tmp_path / "my data" / "snapshots"


def test_snapshots_go_where_the_manifest_says(tmp_path: Path) -> None:
    url = own_remote_state(app(**NAMED), False, tmp_path)

    assert url is None
    assert to_config(with_remote_state(app(**NAMED), url)).remote_state == RemoteStateConfig(url="s3://bucket/prefix")


def test_snapshots_are_looked_for_where_local_keeps_them_when_the_manifest_names_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert snapshots_of(app(), None) is None

    kept = tmp_path / "streamsapp-local" / "wordcount"
    (kept / "snapshots").mkdir(parents=True)

    assert snapshots_of(app(), None) == RemoteStateConfig(url=own_remote_state(app(), False, kept) or "")
    assert snapshots_of(app(**NAMED), None) == RemoteStateConfig(url="s3://bucket/prefix")


def test_a_data_folder_that_is_named_is_looked_into_whatever_the_manifest_says(tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()

    found = snapshots_of(app(**NAMED), tmp_path)

    assert found is not None
    assert found.location == tmp_path / "snapshots"
    assert snapshots_of(app(**NAMED), tmp_path / "another") is None
