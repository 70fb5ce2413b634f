"""``mapAsync`` in a manifest: the program in Python, faults with their fields, and where it does not run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsapp import Serdes, Topology
from streamsapp.errors import ManifestError
from streamsapp.manifest.entrypoint import load_topology
from streamsapp.manifest.load import decode
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()

CODE = """
from contextlib import asynccontextmanager

@asynccontextmanager
async def client():
    yield "client"

async def asked(client, key, value):
    return f"{client} {key} {value}"

async def alone(value):
    return value + "!"

def plain(value):
    return value
"""


@pytest.fixture(autouse=True)
def _forgets_the_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("calling_code", None)


def load(folder: Path, *steps: dict[str, Any], **spec: Any) -> Topology:
    document = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "app"},
        "spec": {
            "topology": {
                "steps": [
                    {"stream": {"topic": "in", "keySerde": "string", "valueSerde": "string"}},
                    *steps,
                    {"to": {"topic": "out", "keySerde": "string", "valueSerde": "string"}},
                ]
            },
            "code": {"files": {"calling_code.py": CODE}},
            **spec,
        },
    }
    return load_topology(decode(document), folder)


def faults(folder: Path, step: Any, **spec: Any) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        load(folder, step, **spec)
    return raised.value.faults


def test_a_declared_call_is_made(tmp_path: Path) -> None:
    options = {
        "function": "calling_code:asked",
        "using": "calling_code:client",
        "concurrency": 20,
        "order": "partition",
        "timeoutMs": 2_000,
        "retries": 2,
        "valueSerde": "string",
        "resultSerde": "string",
        "name": "ask",
    }
    topology = load(tmp_path, {"mapAsync": options}, {"mapAsync": "calling_code:alone"})
    assert "Processor: ask (stores: [ask-waiting])" in str(topology.describe())
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v")
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("k", "client k v!")]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("calling_code:plain", "mapAsync.function: the runtime needs a coroutine function, written with async def"),
        ("calling_code:asked", "mapAsync: map_async calls its function with (key, value); asked"),
        (
            {"function": "calling_code:alone", "order": "keys"},
            "mapAsync.order: expected 'key' or 'none' or 'partition', got 'keys'",
        ),
        ({"function": "calling_code:alone", "concurrency": 0}, "mapAsync.concurrency: expected"),
        ({"function": "calling_code:alone", "retries": -1}, "mapAsync.retries: expected"),
        ({"function": "calling_code:alone", "timeoutMs": 0}, "mapAsync.timeoutMs: expected"),
        ({"function": "calling_code:alone", "using": "calling_code:plain"}, "mapAsync.using: the runtime calls its"),
        ({"concurrency": 3}, "mapAsync.function: is required"),
    ],
)
def test_faults_have_their_fields(tmp_path: Path, options: Any, fault: str) -> None:
    (found,) = faults(tmp_path, {"mapAsync": options})
    assert found.startswith(f"spec.topology.steps[1].{fault}"), found


def test_an_application_on_spark_is_refused_with_the_node(tmp_path: Path) -> None:
    step = {"mapAsync": {"function": "calling_code:alone", "name": "ask"}}
    (found,) = faults(tmp_path, step, engine="spark", remoteState={"url": "s3://bucket/prefix"})
    assert found.startswith("spec.engine: spark: node ask: map_async makes its calls in instances and in test drivers")
    assert "an application of its own" in found
