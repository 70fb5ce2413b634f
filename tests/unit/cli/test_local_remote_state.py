"""The place where ``streamsapp local`` keeps snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from manifests import app
from streamsapp.cli.arguments import snapshots_of, with_remote_state
from streamsapp.cli.local import own_remote_state
from streamsapp.cli.local_folder import LocalFolder
from streamsapp.config import RemoteStateConfig
from streamsapp.manifest.to_config import to_config

MANIFEST = Path("app.yaml")
NAMED = {"remoteState": {"url": "s3://bucket/prefix"}}


@pytest.mark.parametrize(("spec", "embedded"), [({}, False), ({}, True), (NAMED, True)])
def test_snapshots_go_to_a_folder_beside_the_broker(
    spec: dict[str, Any], embedded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    url = own_remote_state(app(**spec), embedded, LocalFolder(MANIFEST, "wordcount", Path("my data")))

    made = to_config(with_remote_state(app(**spec), url)).remote_state
    assert made is not None
    assert made.location == tmp_path / "my data" / "snapshots"


def test_snapshots_go_where_the_manifest_says(tmp_path: Path) -> None:
    url = own_remote_state(app(**NAMED), False, LocalFolder(MANIFEST, "wordcount", tmp_path))

    assert url is None
    assert to_config(with_remote_state(app(**NAMED), url)).remote_state == RemoteStateConfig(url="s3://bucket/prefix")


def test_snapshots_are_looked_for_where_local_keeps_them_when_the_manifest_names_no_store(
    tmp_path: Path,
) -> None:
    manifest = tmp_path / "app.yaml"
    assert snapshots_of(app(), manifest, None) is None

    kept = LocalFolder(manifest, "wordcount")
    kept.snapshots.mkdir(parents=True)

    assert snapshots_of(app(), manifest, None) == RemoteStateConfig(url=own_remote_state(app(), False, kept) or "")
    assert snapshots_of(app(**NAMED), manifest, None) == RemoteStateConfig(url="s3://bucket/prefix")
    assert snapshots_of(app(), tmp_path / "another project" / "app.yaml", None) is None


def test_a_data_folder_that_is_named_is_looked_into_whatever_the_manifest_says(tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()

    found = snapshots_of(app(**NAMED), MANIFEST, tmp_path)

    assert found is not None
    assert found.location == tmp_path / "snapshots"
    assert snapshots_of(app(**NAMED), MANIFEST, tmp_path / "another") is None
