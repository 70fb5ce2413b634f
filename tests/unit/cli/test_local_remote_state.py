"""Where ``streamsapp local`` keeps snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamsapp.cli.arguments import with_remote_state
from streamsapp.cli.local import own_remote_state
from streamsapp.config import RemoteStateConfig
from streamsapp.manifest import StreamsApp, decode
from streamsapp.manifest.to_config import to_config

NAMED = {"remoteState": {"url": "s3://bucket/prefix"}}


def app(**spec: Any) -> StreamsApp:
    return decode({
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "wordcount"},
        "spec": {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "kafka:9092"}} | spec,
    })  # fmt: skip


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
