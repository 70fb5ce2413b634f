"""A table becomes state while no other member is there, and in pieces that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, LongType, StringType, StructType, TimestampNTZType, TimestampType

from streamsapp import Serdes, Stores, StreamsConfig
from streamsapp.config import RemoteStateConfig
from streamsapp.errors import ConfigError, ManifestError
from streamsapp.remote.bootstraps import Bootstraps
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp_spark.seed import rows as seed_rows, state as seed_state, writer as seed_writer
from streamsapp_spark.seed.state import Seeding
from streamsapp_spark.seed.writer import SeedWriter

TEXT = Serdes.string()


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
    monkeypatch.setattr(seed_state, "refuse_state", lambda *_: (app.layout, ()))  # the application never ran
    monkeypatch.setattr(seed_state, "TopicAdmin", lambda *_: nothing)
    monkeypatch.setattr(seed_state, "PartitionOffsets", lambda *_: nothing)
    monkeypatch.setattr(seed_state, "GroupAdmin", lambda *_: SimpleNamespace(activity=lambda: "one member, a pod"))

    with pytest.raises(ManifestError, match="app is running: one member, a pod"):
        Seeding(app, "counts", (), lambda _: iter(())).run({})

    assert Bootstraps(app.objects, "app").newest() is None


class Rows:
    """Rows of many partitions, in the place of a store that makes them of a table's."""

    def __init__(self, *_: object) -> None:
        pass

    def entries(self, batch: pa.RecordBatch) -> Iterator[tuple[int, tuple[bytes, bytes, int]]]:
        return ((number % 100, (b"%d" % number, bytes(1_000), 0)) for number in range(batch.num_rows))


def test_rows_of_many_partitions_are_put_aside_before_they_fill_the_memory(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed_writer, "application", lambda _: app)
    monkeypatch.setattr(seed_writer, "SeededStore", Rows)
    monkeypatch.setattr(seed_writer, "_BYTES", 200_000)
    writer = SeedWriter(cast(Any, None), "counts", (), "app/seed/1")

    told = writer.write(iter([pa.RecordBatch.from_pydict({"key": list(range(1_000))})]))

    found = [row for _, key in told.keys for rows in seed_writer._rows(app, [key]) for row in rows]
    assert sorted(int(key) for key, _, _ in found) == list(range(1_000))
    assert max(info.size for info in app.objects.list("app/seed/1/")) < 200_000 / 50


def test_times_of_a_table_are_timestamps_or_milliseconds_and_name_a_zone(app: Any) -> None:
    builder = Stores.key_value_store_builder(Stores.persistent_timestamped_key_value_store("counts"), TEXT, TEXT)
    for kind in ("timestamp", "bigint"):
        seed_writer._check_columns(builder, app.config, columns(kind))
    with pytest.raises(ConfigError, match=r"column 'timestamp' is timestamp_ntz, .*: CAST\(timestamp AS TIMESTAMP\)"):
        seed_writer._check_columns(builder, app.config, columns("timestamp_ntz"))
    times = pa.array([1_700_000_000_123_999, None], pa.timestamp("us", "UTC"))
    assert seed_rows._plain(times) == [1_700_000_000_123, None]
    assert seed_rows._plain(pa.array([7, None])) == [7, None]


def columns(timestamp: str) -> StructType:
    kinds: dict[str, DataType] = {
        "timestamp": TimestampType(),
        "timestamp_ntz": TimestampNTZType(),
        "bigint": LongType(),
    }
    text = StringType()
    return StructType().add("key", text).add("value", text).add("timestamp", kinds[timestamp])
