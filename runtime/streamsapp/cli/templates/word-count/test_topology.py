"""The topology, tested without a broker."""

from topology import topology

from streamsapp import Serdes
from streamsapp.testing import TopologyTestDriver

text = Serdes.string()


def test_words_are_counted() -> None:
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("lines", text, text).pipe_input(None, "Streams of streams")
        counts = driver.create_output_topic("counts", text, Serdes.long()).read_key_values()

    assert counts == [("streams", 1), ("of", 1), ("streams", 2)]
