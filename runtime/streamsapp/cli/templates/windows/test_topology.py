"""The topology, tested without a broker."""

from topology import MINUTE, topology

from streamsapp import Serdes, Windowed
from streamsapp.testing import TopologyTestDriver

text = Serdes.string()


def test_visits_are_counted_minute_by_minute() -> None:
    with TopologyTestDriver(topology) as driver:
        visits = driver.create_input_topic("visits", text, text)
        for second in (1, 59, 61):
            visits.pipe_input("home", "jane", timestamp_ms=second * 1000)
        totals = driver.create_output_topic("totals", Serdes.time_windowed(text, MINUTE), Serdes.long())

        assert totals.read_key_values() == [
            (Windowed("home", 0, 60_000), 1),
            (Windowed("home", 0, 60_000), 2),
            (Windowed("home", 60_000, 120_000), 1),
        ]
