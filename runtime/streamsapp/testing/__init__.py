"""Tests topologies: a driver that needs no broker, and a clock that is moved by hand."""

from streamsapp.testing.driver import TopologyTestDriver
from streamsapp.testing.mock_clock import MockClock
from streamsapp.testing.topics import TestInputTopic, TestOutputTopic

__all__ = ["MockClock", "TestInputTopic", "TestOutputTopic", "TopologyTestDriver"]
