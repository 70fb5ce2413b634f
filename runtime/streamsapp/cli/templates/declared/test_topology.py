"""The topology of app.yaml, tested without a broker."""

from pathlib import Path

from streamsapp import Serdes
from streamsapp.manifest.entrypoint import read_app
from streamsapp.testing import TopologyTestDriver

text = Serdes.string()


def test_words_are_counted() -> None:
    _, topology = read_app(Path(__file__).with_name("app.yaml"))
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("lines", text, text).pipe_input(None, "Streams of streams")
        counts = driver.create_output_topic("counts", text, Serdes.long()).read_key_values()

    assert counts == [("streams", 1), ("of", 1), ("streams", 2)]
