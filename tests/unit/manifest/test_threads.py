"""Structures that many threads are the first to read into, as when an operator starts with many applications."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own, as it would end by a signal. The interpreter changes threads as often as it can.
RACE = """
import importlib, sys
from threading import Barrier, Thread
from streamsapp import structs
from streamsapp.manifest import model

sys.setswitchinterval(1e-6)
THREADS = 12
read = getattr(structs, sys.argv[1])
document = {"apiVersion": "streamsapp.dev/v1alpha1", "kind": "StreamsApp", "metadata": {"name": "a"}, "spec": {}}
document["spec"] = {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "kafka:9092"}}
given = document if sys.argv[1] == "converted" else __import__("json").dumps(document)

for _ in range(20):
    kind = importlib.reload(model).StreamsApp  # nobody has read into it yet
    begin = Barrier(THREADS)
    def one():
        begin.wait()
        read(given, kind)
    threads = [Thread(target=one) for _ in range(THREADS)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


@pytest.mark.parametrize("read", ["converted", "decoded"])
def test_many_threads_may_be_the_first_to_read_into_a_structure(read: str) -> None:
    ended = subprocess.run([sys.executable, "-c", RACE, read], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
