"""``TopologyTestDriver`` with topics of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamsapp import (
    Serdes,
    StreamsConfig,
    Topology,
)
from streamsapp.dsl.options import Consumed
from streamsapp.testing import TestInputTopic, TestOutputTopic, TopologyTestDriver

text, number = Serdes.string(), Serdes.long()
as_text = Consumed(key_serde=text, value_serde=text)


def configured(**settings: Any) -> StreamsConfig:
    serdes = {"default_key_serde": text, "default_value_serde": text}
    return StreamsConfig(application_id="app", bootstrap_servers="none:9092", **{**serdes, **settings})


class Driven:
    """A driver with the topics ``in`` and ``out``, both text; closed by the fixture that made it."""

    def __init__(self, topology: Topology, *, wall_clock_ms: int = 0, **settings: Any) -> None:
        self.driver = TopologyTestDriver(topology, configured(**settings), wall_clock_ms)

    def input(self, topic: str = "in", **times: int) -> TestInputTopic:
        return self.driver.create_input_topic(topic, text, text, **times)

    def output(self, topic: str = "out") -> TestOutputTopic:
        return self.driver.create_output_topic(topic, text, text)


Drive = Callable[..., Driven]
