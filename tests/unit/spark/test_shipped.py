"""Programs that go to Spark's workers keep their serdes."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp import Consumed, Produced, Serdes, StreamsBuilder
from streamsapp_spark.programs.shipped import PickledProgram
from task_parts import config, raw, sent


@pytest.mark.parametrize("name", ["short", "integer", "long", "double"])
def test_numbers_are_read_and_written_in_workers_as_here(name: str) -> None:
    serde: Any = getattr(Serdes, name)()
    builder = StreamsBuilder()
    builder.stream("in", Consumed(serde, serde)).map_values(lambda value: value + 1).to("out", Produced(serde, serde))

    topology, settings = PickledProgram.of(builder.build(), config(default_key_serde=serde)).load()

    data, more = serde.serialize(7), serde.serialize(8)
    assert [record[:3] for record in sent(topology, raw(0, key=data, value=data))] == [("out", more, data)]
    assert settings.default_key_serde.serialize(8) == more
