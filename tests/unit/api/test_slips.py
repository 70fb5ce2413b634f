"""The slips of users, and the errors: each names the thing, the user's line (marked ``# here``), and the remedy."""

from __future__ import annotations

import itertools
import logging
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from streamsapp import Serdes, StreamsBuilder, StreamsConfig, StreamsRuntime
from streamsapp.errors import ConfigError, ManifestError, StreamsError, TopologyError
from streamsapp.manifest.entrypoint import UserCode, checked, load_entrypoint
from streamsapp.testing import TopologyTestDriver
from streamsapp.topology.builder import Topology

_numbers = itertools.count()

HEADER = """\
from datetime import timedelta
from streamsapp import *
from streamsapp.state.builders import Stores as StoreMakers

text = Consumed(Serdes.string(), Serdes.string())
written = Produced(Serdes.string(), Serdes.string())
grouped = Grouped(Serdes.string(), Serdes.string())
builder = StreamsBuilder()

def stream():
    return builder.stream("in", text)
"""


class Slip(NamedTuple):
    """A program, whose last line gives the topology, and the message."""

    program: str
    message: str


#: Reported when the topology is built: by ``validate``, before anything runs.
BUILDING = [
    Slip("builder.stream('in', Serdes.string())  # here", "stream takes Consumed here, not Serde; write Consumed(key_"),
    Slip("builder.table('in', Serdes.string())  # here", "table takes Consumed here, not Serde; write Consumed(key_se"),
    Slip("stream().to('o', text)  # here", "to takes Produced here, not Consumed; write Produced(key_serde, value_ser"),
    Slip("stream().group_by_key(text)  # here", "group_by_key takes Grouped here, not Consumed; write Grouped(key_ser"),
    Slip("stream().group_by(lambda k, v: v, text)  # here", "group_by takes Grouped here, not Consumed; write Grouped"),
    Slip("stream().merge('other')  # here", "merge takes KStream here, not str; write merge(other_stream)"),
    Slip(
        "builder.add_state_store(StoreMakers.persistent_key_value_store('s'))  # here",
        "add_state_store needs a store builder, got KeyValueStoreSupplier; make one of a supplier with Stores.key_valu",
    ),
    Slip(
        "builder = Topology().add_state_store(lambda: 1)  # here",
        "add_state_store needs a store builder, got function; make one of a supplier with Stores.key_value_store_build",
    ),
    Slip(
        "store = StoreMakers.persistent_key_value_store('a b')\n"
        "stream()\n"
        "builder.add_state_store(StoreMakers.key_value_store_builder(store))  # here",
        "store 'a b' (added at ",
    ),
    Slip("async def double(value): return value\nstream().map_values(double)  # here", "map_values: double is a corou"),
    Slip("async def keep(k, v): return True\nstream().filter(keep)  # here", "filter: keep is a coroutine, which is n"),
    Slip(
        "class P(Processor):\n    async def process(self, record): ...\nstream().process(P)  # here",
        "P.process is a coroutine, which is never awaited; write it without async",
    ),
    Slip(
        "stream().process(lambda record: record)  # here",
        "is called without arguments and makes a Processor; a function of a record is not a supplier: write a "
        "class with process(self, record), or use map, filter or foreach",
    ),
    Slip("stream().process(lambda: 5)  # here", "the supplier made a int, not a Processor"),
    Slip("builder.stream('in put', text)  # here", "'in put' is not the name of a topic; use 1 to 249 ASCII letters,"),
    Slip("stream().to('o/ut', written)  # here", "'o/ut' is not the name of a topic; use 1 to 249 ASCII letters, digi"),
    Slip("stream().mapValues(str.upper)  # here", "KStream has no 'mapValues'; here it is called map_values"),
    Slip("stream().transform(str.upper)  # here", "KStream has no 'transform'; use process()"),
    Slip("stream().count()  # here", "KStream has no 'count'; group it first, with group_by_key() or group_by()"),
    Slip("stream().flatmap(list)  # here", "KStream has no 'flatmap'; did you mean flat_map?"),
    Slip("builder.table('in', text).toStream()  # here", "KTable has no 'toStream'; here it is called to_stream"),
    Slip("stream().groupByKey()  # here", "KStream has no 'groupByKey'; here it is called group_by_key"),
    Slip("builder.addStateStore(None)  # here", "StreamsBuilder has no 'addStateStore'; here it is called add_state_s"),
    Slip("builder = Topology().addSource('a', 'b')  # here", "Topology has no 'addSource'; here it is called add_sour"),
    Slip(
        "stream().group_by_key().count(Materialized('c', retention=5))  # here",
        "Materialized('c', retention=...): a table without windows keeps every key; leave retention out, and delete ro",
    ),
    Slip("stream().map(5)  # here", "map needs a function of (key, value), not 5"),
    Slip("builder = 5", "gives int; expected a Topology, a StreamsBuilder, or a function without arguments that retur"),
]  # fmt: skip

#: Reported when the first record comes, by the exception that ends the application (or goes to its handler).
RUNNING = [
    Slip(
        "stream().map_values(lambda value: value['field'])  # here",
        "TypeError at node KSTREAM-MAPVALUES-0000000001 (added at {here}), task 0_0, record in-0@0: "
        "string indices must be integers, not 'str' ({here})",
    ),
    Slip(
        "stream().map(lambda key, value: value)  # here",
        "(added at {here}), task 0_0, record in-0@0: map: the function must return a pair (key, value) (it returned '",
    ),
    Slip(
        "stream().map(lambda key, value: 'ab')  # here",
        "(added at {here}), task 0_0, record in-0@0: map: the function must return a pair (key, value) (it returned "
        "'ab')",
    ),
    Slip(
        "stream().map(lambda key, value: [key, value, value])  # here",
        "map: the function must return a pair (key, value) (too many values to unpack",
    ),
    Slip(
        "stream().map(lambda key, value: None)  # here",
        "map: the function must return a pair (key, value) (cannot unpack non-iterable NoneType object)",
    ),
    Slip(
        "stream().flat_map(lambda key, value: value)  # here",
        "flat_map: the function must return pairs (key, value), in a list for example (it returned '",
    ),
    Slip(
        "stream().flat_map(lambda key, value: {'ab': value})  # here",
        "(added at {here}), task 0_0, record in-0@0: flat_map: the function must return pairs (key, value), in a list "
        "for example (it returned 'ab')",
    ),
    Slip(
        "builder.table('in', text).group_by(lambda key, value: 'ab').count()  # here",
        "record in-0@0: group_by: the function must return a pair (key, value) (it returned 'ab')",
    ),
    Slip(
        "stream().flat_map_values(lambda value: value)  # here",
        "(added at {here}), task 0_0, record in-0@0: flat_map_values: the function returned str; it must return a list "
        "of values, or any other iterable (map_values takes a single value)",
    ),
    Slip(
        "stream().flat_map_values(lambda value: None)  # here",
        "flat_map_values: the function returned NoneType; it must return a list of values, or any other iterable (map_",
    ),
    Slip(
        "stream().map_values(len).to('out', written)  # here",
        "cannot serialise the value of a record for topic out at node KSTREAM-SINK-0000000002 (added at {here}), task "
        "0_0, record in-0@0: got int, the serde of values is string; declare one that fits by "
        "Produced(value_serde=...), e.g. Serdes.long()",
    ),
    Slip(
        "builder.stream('in', Consumed(Serdes.string(), Serdes.long())).to('out')  # here",
        "cannot deserialise node KSTREAM-SOURCE-0000000000 (added at {here}), task 0_0, record in-0@0: ",
    ),
    Slip(
        "builder.stream('in', Consumed(Serdes.string(), Serdes.long())).to('out')",
        "; declare the serdes that the topic was written with (Consumed, or default_key_serde and default_value_serde)",
    ),
    Slip(
        "class P(Processor):\n    def init(self, context): self.context = context\n"
        "    def process(self, record):\n        self.context.forward(None)  # here\nstream().process(P)",
        "forward takes a Record, got NoneType; write Record(key, value, timestamp) ({here})",
    ),
    Slip(
        "class P(Processor):\n    def init(self, context):\n"
        "        context.schedule('10s', PunctuationType.STREAM_TIME, print)\n"
        "    def process(self, record): ...\nstream().process(P)",
        "a duration is a timedelta or whole milliseconds, got '10s'; write timedelta(seconds=10), or 10_000",
    ),
    Slip(
        "class P(Processor):\n    def init(self, context):\n        context.schedule(10, 'stream', print)\n"
        "    def process(self, record): ...\nstream().process(P)",
        "schedule takes (interval, PunctuationType, function of a timestamp)",
    ),
    Slip(
        "class P(Processor):\n    def init(self, context): 1 / 0  # here\n"
        "    def process(self, record): ...\nstream().process(P)",
        "task 0_0: division by zero ({here})",
    ),
    Slip(
        "class P(Processor):\n    def init(self, context): context.get_state_store('absent')\n"
        "    def process(self, record): ...\nstream().process(P)",
        "has no access to the store 'absent': connect it, e.g. process(supplier, 'absent')",
    ),
]


def load(folder: Path, program: str) -> tuple[Topology, Path]:
    path = folder / f"slip_{next(_numbers)}.py"
    path.write_text(HEADER + program + "\n")
    field = "spec.topology.entrypoint"
    return checked(load_entrypoint(f"{path.stem}:builder", UserCode([folder]), field), field), path


def pipe(topology: Topology, *values: str) -> None:
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        for value in values:
            topic.pipe_input("k", value)


def here(path: Path) -> str:
    """The line that is marked."""
    (number,) = [number for number, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# here")]
    return f"{path}:{number}"


@pytest.mark.parametrize("slip", BUILDING, ids=lambda slip: slip.program.splitlines()[-1])
def test_a_slip_is_told_when_the_topology_is_built(tmp_path: Path, slip: Slip) -> None:
    with pytest.raises(ManifestError) as raised:
        load(tmp_path, slip.program)

    (told,) = raised.value.faults
    assert slip.message in told
    if "# here" in slip.program:
        assert here(next(tmp_path.glob("slip_*.py"))) in told


@pytest.mark.parametrize("slip", RUNNING, ids=lambda slip: slip.program.splitlines()[-1])
def test_a_slip_is_told_when_the_first_record_comes(tmp_path: Path, slip: Slip) -> None:
    topology, path = load(tmp_path, slip.program)

    with pytest.raises((StreamsError, TopologyError)) as raised:
        pipe(topology, "value")

    expected = slip.message.replace("{here}", here(path)) if "{here}" in slip.message else slip.message
    assert expected in str(raised.value)


def test_an_aggregator_that_returns_nothing_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topology, path = load(
        tmp_path,
        "kept = Materialized('m', value_serde=Serdes.json())\n"
        "stream().group_by_key(grouped).aggregate(list, lambda k, v, a: a.append(v), kept)  # here",
    )
    with caplog.at_level(logging.WARNING):
        pipe(topology, "one", "two")

    (told,) = [record.getMessage() for record in caplog.records if "aggregator returned None" in record.getMessage()]
    assert f"(added at {here(path)}): the aggregator returned None, which deletes the aggregate; if that is" in told


BUILDER = StreamsBuilder()
SETTINGS = {"application_id": "a", "bootstrap_servers": "b:1"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"default_key_serde": "string"}, "default_key_serde: expected a serde such as Serdes.string(), got 'string'"),
        ({"default_timestamp_extractor": "x"}, "default_timestamp_extractor: expected a function of a record, got 'x'"),
        (
            {"http_port": 8080},
            "http_port: HTTP is served by `streamsapp run --http-port`; in a program of yours ask St",
        ),
        ({"num_stream_threads": 2}, "num_stream_threads: is called threads here"),
        ({"thread": 2}, "thread: there is no such setting; did you mean threads?"),
        ({"topology_optimization": True}, "topology_optimization: expected 'none', 'all', or some of "),
    ],
)
def test_a_setting_that_is_none_is_refused_with_the_remedy(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        StreamsConfig(**SETTINGS | settings)  # type: ignore[arg-type]


def test_a_forgotten_build_is_told() -> None:
    with pytest.raises(ConfigError, match="runs a Topology, got StreamsBuilder; call build"):
        StreamsRuntime(BUILDER, StreamsConfig(**SETTINGS))  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="drives a Topology, got StreamsBuilder; give what build"):
        TopologyTestDriver(BUILDER)  # type: ignore[arg-type]


def test_an_entrypoint_that_is_a_file_is_told_how_to_write_it(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"got 'hello\.py:topology'; leave \.py out: hello:topology$"):
        load_entrypoint("hello.py:topology", UserCode([tmp_path]), "field")
