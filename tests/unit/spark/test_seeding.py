"""A table becomes state while nobody else is there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamsapp import StreamsConfig
from streamsapp.config import RemoteStateConfig
from streamsapp.errors import ManifestError
from streamsapp.remote.bootstraps import Bootstraps
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp_spark import seed_state
from streamsapp_spark.seed_state import Seeding


@pytest.fixture
def app(tmp_path: Path) -> Any:
    """As much of an application as has no tasks and no topics."""
    remote = RemoteStateConfig(url=tmp_path.as_uri())
    config = StreamsConfig(application_id="app", bootstrap_servers="none:9092", remote_state=remote)
    layout = SimpleNamespace(plans={}, repartition_topics=frozenset())
    return SimpleNamespace(config=config, objects=DirectoryStore(tmp_path), layout=layout, topology=None)


def test_whoever_joins_while_a_table_is_made_state_of_has_it_withdrawn(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = SimpleNamespace(create=lambda *_: None, highs={})
    monkeypatch.setattr(seed_state, "refuse_state", lambda *_: (app.layout, ()))  # nobody was there yet
    monkeypatch.setattr(seed_state, "TopicAdmin", lambda *_: nothing)
    monkeypatch.setattr(seed_state, "PartitionOffsets", lambda *_: nothing)
    monkeypatch.setattr(seed_state, "GroupAdmin", lambda *_: SimpleNamespace(activity=lambda: "one member, a pod"))

    with pytest.raises(ManifestError, match="app is running: one member, a pod"):
        Seeding(app, "counts", (), lambda _: iter(())).run({})

    assert Bootstraps(app.objects, "app").newest() is None
