"""A Python program is refused what Spark does not do before there is a session, or anything is begun."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamsapp import Consumed, Scheduling, Serdes, StreamsBuilder, StreamsConfig, Topology
from streamsapp.config import RemoteStateConfig
from streamsapp.errors import ConfigError, TopologyError
from streamsapp_spark import bootstrap, run


async def ask(value: str) -> str:
    return value


def topology(*, calls: bool) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serdes.string(), Serdes.string()))
    (stream.map_async(ask) if calls else stream).to("out")
    return builder.build()


def test_calls_and_scheduling_are_refused_by_name(tmp_path: Path) -> None:
    remote = RemoteStateConfig(url=tmp_path.as_uri())
    config = StreamsConfig(application_id="a", bootstrap_servers="none:1", remote_state=remote)
    for function in (run, bootstrap):
        with pytest.raises(TopologyError, match="map_async makes its calls in instances and in test drivers, and not"):
            function(topology(calls=True), config)
    shared = replace(config, scheduling=[Scheduling(sub_topology=0, weight=2)])
    with pytest.raises(ConfigError, match="scheduling: Spark schedules the tasks of a batch itself; leave this out"):
        run(topology(calls=False), shared)
    sink = {"name": "lake", "topic": "nowhere", "format": "parquet", "path": "/lake"}
    for sinks, fault in (
        ([sink], r"sinks\[0\].topic: the topology writes no topic 'nowhere'; it writes: "),
        ([sink, sink], r"sinks\[1\].name: another sink is called lake, too; rename one of them"),
        ([sink | {"format": "csv"}], "trigger, max_records_per_batch or sinks: "),
    ):
        with pytest.raises(ConfigError, match=fault):
            run(topology(calls=False), config, sinks=sinks)
    assert list(tmp_path.iterdir()) == []
