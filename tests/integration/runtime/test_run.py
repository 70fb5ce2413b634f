"""``StreamsRuntime.run()``: a program of one's own with the HTTP port and signals, in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from instances import eventually
from kafka_cluster import Kafka
from streamsapp.local.broker import free_port

PROGRAM = """
import sys
from pathlib import Path
from streamsapp import Consumed, Produced, Serdes, StreamsBuilder, StreamsConfig, StreamsRuntime

servers, source, sink, folder, port = sys.argv[1:]
text = Serdes.string()
builder = StreamsBuilder()
builder.stream(source, Consumed(text, text)).to(sink, Produced(text, text))
config = StreamsConfig(application_id=source, bootstrap_servers=servers, state_dir=Path(folder))
StreamsRuntime(builder.build(), config).run(int(port))
print("closed")
"""


def start(kafka: Kafka, source: str, sink: str, folder: Path, port: int) -> subprocess.Popen[str]:
    arguments = [kafka.bootstrap_servers, source, sink, str(folder), str(port)]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_it_serves_its_status_and_closes_on_a_signal(kafka: Kafka, tmp_path: Path) -> None:
    source, sink, port = kafka.create_topic("in"), kafka.create_topic("out"), free_port()
    kafka.produce(source, [(b"a", b"1")])
    program = start(kafka, source, sink, tmp_path, port)
    try:
        eventually(lambda: program.poll() is not None or kafka.read(sink))
        assert program.poll() is None, program.communicate()[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=60) as answer:
            assert json.load(answer)["state"] == "RUNNING"
        program.send_signal(signal.SIGTERM)
        out, err = program.communicate(timeout=60)
    finally:
        program.kill()
    assert (program.returncode, out) == (0, "closed\n"), err
    assert kafka.committed(source, source)[0][0] == 1


def test_it_raises_what_ends_it(kafka: Kafka, tmp_path: Path) -> None:
    source, sink = kafka.create_topic("in"), kafka.create_topic("out")
    kafka.produce(source, [(b"a", b"\xff")])
    program = start(kafka, source, sink, tmp_path, 0)
    out, err = program.communicate(timeout=100)
    assert (program.returncode, out) == (1, "")
    assert "streamsapp.errors.DeserializationError: cannot deserialise" in err
