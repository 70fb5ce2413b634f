"""Code that a declaration names: found, looked at before anything runs, and all its faults reported at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp import Processor, Record, Serdes, Topology
from streamsapp.cli.main import main
from streamsapp.declared.build_steps import build_steps
from streamsapp.errors import ManifestError
from streamsapp.manifest import decode
from streamsapp.manifest.entrypoint import UserCode, load_topology
from streamsapp.testing import TopologyTestDriver

_numbers = count()

CODE = """
from streamsapp import Processor, Serdes
from streamsapp.errors import TopologyError

text = Serdes.string()
broken = "x"

def number(): return Serdes.long()
def failing(): return 1 // 0
def one(value): return value
def two(key, value): return key, value
def three(a, b, c): return a
def joined(values): return "/".join(values)
def kept_by_headers(topic, key, value, headers, partitions): return 0 if headers == [("h", b"1")] else []

class Passing(Processor):
    def init(self, context): self.context = context
    def process(self, record): self.context.forward(record)

class Keeping(Passing):
    def process(self, record): self.context.get_state_store("rates").put(record.key, record.value)

class Bringing(Passing):
    @staticmethod
    def stores(): raise OSError("no stores today")

class Transformer:
    def init(self, context): self.rows = context.get_state_store("seen")
    def transform(self, key, value):
        self.rows.put(key, value)
        return value * 2
    def close(self): pass
"""


@pytest.fixture(autouse=True)
def _python_path_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("declared_code_"):
            del sys.modules[name]


@pytest.fixture
def code() -> str:
    """A module of its own name: Python imports a name once."""
    return f"declared_code_{next(_numbers)}"


def load(folder: Path, code: str, **topology: Any) -> Topology:
    document = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "app"},
        "spec": {"topology": topology, "code": {"files": {f"{code}.py": CODE}}},
    }
    return load_topology(decode(document), folder)


def faults(folder: Path, code: str, **topology: Any) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        load(folder, code, **topology)
    return [line.removeprefix("spec.topology.") for line in raised.value.faults]


def test_all_faults_of_code_are_told_at_once(tmp_path: Path, code: str) -> None:
    lines = faults(
        tmp_path,
        code,
        steps=[
            {"stream": {"topic": "a", "keySerde": f"{code}:broken", "valueSerde": f"{code}:failing"}},
            {"filter": f"{code}:one"},
            {"mapValues": f"{code}:three"},
            {"map": f"{code}:tow"},
            {"process": f"{code}:one"},
            {"process": f"{code}:broken"},
            {"process": f"{code}:failing"},
            {"split": {"branches": [{"predicate": f"{code}:three"}]}},
        ],
    )
    assert lines[0] == f"steps[0].stream.keySerde: {code}:broken gives str; expected a serde, such as Serdes.of(...)"
    assert lines[1].startswith(f"steps[0].stream.valueSerde: calling {code}:failing raised ZeroDivisionError")
    assert lines[1].endswith(f"{code}.py:9)")
    assert lines[2] == (
        "steps[1].filter.predicate: the runtime calls its function with (key, value); one(value) does not take that"
    )
    assert lines[3].startswith("steps[2].mapValues.mapper: the runtime calls its function with (key, value)")
    assert "has no attribute 'tow'" in lines[4]
    assert lines[5].startswith(f"steps[4].process.supplier: processor {code}:one: the supplier is called without arg")
    assert lines[6].startswith(f"steps[5].process.supplier: processor {code}:broken: the supplier must be a class")
    assert lines[7].startswith("steps[6].process.supplier: making a processor")
    assert lines[8].startswith("steps[7].split.branches[0].predicate: the runtime calls")
    assert len(lines) == 9


def test_all_faults_of_code_in_a_graph_are_told_at_once(tmp_path: Path, code: str) -> None:
    lines = faults(
        tmp_path,
        code,
        graph={
            "sources": [{"name": "in", "topics": ["a"], "timestampExtractor": f"{code}:one"}],
            "processors": [{"name": "p", "supplier": f"{code}:Pasing", "parents": ["in"]}],
            "sinks": [{"name": "out", "topicNameExtractor": f"{code}:two", "parents": ["p"]}],
        },
    )
    assert [line.partition(": ")[0] for line in lines] == [
        "graph.sources[0].timestampExtractor",
        "graph.processors[0].supplier",
        "graph.sinks[0].topicNameExtractor",
    ]


def test_a_partitioner_of_code_may_take_the_headers_too(tmp_path: Path, code: str) -> None:
    def written(partitioner: str) -> list[Any]:
        text = {"keySerde": "string", "valueSerde": "string"}
        to = {"topic": "b", "partitioner": f"{code}:{partitioner}", **text}
        with TopologyTestDriver(load(tmp_path, code, steps=[{"stream": {"topic": "a", **text}}, {"to": to}])) as driver:
            driver.create_input_topic("a", Serdes.string(), Serdes.string()).pipe_input("k", "v", headers=[("h", b"1")])
            return driver.create_output_topic("b", Serdes.string(), Serdes.string()).read_key_values()

    assert written("kept_by_headers") == [("k", "v")]
    (fault,) = faults(tmp_path, code, steps=[{"stream": "a"}, {"to": {"topic": "b", "partitioner": f"{code}:three"}}])
    assert fault.startswith(f"steps[1].to.partitioner: the partitioner {code}:three is called with (topic, key, value")


def test_what_the_builder_refuses_is_told_at_its_step(tmp_path: Path, code: str) -> None:
    steps = [
        {"stream": "a"},
        {"groupBy": {"selector": "value", "combine": True}},
        {"aggregate": {"initializer": f"{code}:number", "aggregator": f"{code}:three"}},
    ]
    (line,) = faults(tmp_path, code, steps=steps)
    assert line.startswith("steps[2].aggregate: aggregate cannot combine before the repartition topic")


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        ({"windowedBy": {"differenceMs": 5, "advanceMs": 1}}, "steps[2].windowedBy: advanceMs: only windows of a size"),
        ({"windowedBy": {"startMs": 5, "graceMs": 1}}, "steps[2].windowedBy: graceMs: unlimited windows"),
        ({"windowedBy": {"gapMs": 0}}, "steps[2].windowedBy: SessionWindows: inactivity_gap must be at least 1 ms"),
        (
            {"addStateStore": {"store": "w", "type": "window", "retentionMs": 5}},
            "steps[2].addStateStore: store w: a window store needs retentionMs and windowSizeMs",
        ),
        (
            {"addStateStore": {"store": "w", "type": "timestampedWindowWithHeaders", "retentionMs": 5}},
            "steps[2].addStateStore: store w: a timestampedWindowWithHeaders store needs retentionMs and windowSizeMs",
        ),
        (
            {"addStateStore": {"store": "w", "type": "session", "retentionMs": 5, "windowSizeMs": 1}},
            "steps[2].addStateStore: store w: a session store needs retentionMs, and no windowSizeMs",
        ),
        (
            {"addStateStore": {"store": "w", "type": "versioned", "retentionMs": 5, "engine": "memory"}},
            "steps[2].addStateStore: store w: a versioned store is kept in RocksDB; leave engine out",
        ),
        (
            {"addStateStore": {"store": "w", "type": "versioned"}},
            "steps[2].addStateStore: store w: a versioned store needs retentionMs, and no windowSizeMs",
        ),
        (
            {"addStateStore": {"store": "w", "retentionMs": 5}},
            "steps[2].addStateStore: store w: a keyValue store keeps every key",
        ),
    ],
)
def test_windows_that_cannot_be_are_told_at_their_step(
    tmp_path: Path, code: str, step: dict[str, Any], fault: str
) -> None:
    (line,) = faults(tmp_path, code, steps=[{"stream": "a"}, {"groupByKey": {}}, step])
    assert line.startswith(fault)


def test_what_only_the_whole_shows_is_told_of_the_steps(tmp_path: Path, code: str) -> None:
    (line,) = faults(tmp_path, code, steps=[{"stream": {"topics": ["a", "b"]}}, {"stream": "b"}])
    assert line.startswith("steps: sources KSTREAM-SOURCE-0000000000 and KSTREAM-SOURCE-0000000001 both read b")


@pytest.mark.parametrize("form", ["graph", "steps"])
def test_a_supplier_that_fails_to_bring_its_stores_is_told_with_its_line(tmp_path: Path, code: str, form: str) -> None:
    supplier = f"{code}:Bringing"
    declared = {
        "graph": {
            "sources": [{"name": "in", "topics": ["a"]}],
            "processors": [{"name": "p", "supplier": supplier, "parents": ["in"]}],
        },
        "steps": [{"stream": "a"}, {"process": supplier}],
    }
    (line,) = faults(tmp_path, code, **{form: declared[form]})
    assert line.startswith(f"{form}: building the topology raised OSError: no stores today (")


@pytest.mark.parametrize("form", ["graph", "steps"])
def test_a_read_only_store_has_no_changelog_to_configure(tmp_path: Path, code: str, form: str) -> None:
    filled = {"topic": "rows", "supplier": f"{code}:Passing", "keySerde": "string", "logConfig": {"retention.ms": "5"}}
    declared = {
        "graph": {"readOnlyStores": [{"name": "rates", **filled}]},
        "steps": [{"addReadOnlyStateStore": {"store": "rates", **filled}}],
    }
    (line,) = faults(tmp_path, code, **{form: declared[form]})
    assert line.startswith(form)
    assert "add_read_only_state_store('rates'): the store is restored from the topic that it reads" in line
    assert "leave the configuration of its log out (log_config, logConfig)" in line


@pytest.mark.parametrize("add", ["addGlobalStore", "addReadOnlyStateStore"])
def test_a_store_that_a_topic_fills_needs_no_serdes(tmp_path: Path, code: str, add: str) -> None:
    filled = {"store": "rates", "topic": "rows", "supplier": f"{code}:Keeping"}
    topology = load(tmp_path, code, steps=[{add: filled}, {"stream": "lines"}, {"to": "out"}])
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("rows", Serdes.bytes(), Serdes.bytes()).pipe_input(b"k", b"v")
        assert driver.get_key_value_store("rates").get(b"k") == b"v"


_THINGS = (3, None, "text", print, int, dict, Serdes.string(), Processor, lambda *given: given, Serdes.long)
_JUNK = st.sampled_from([None, True, 7, "", ".", "a b", "app:thing", "value", "long", [], ["x"], {}, {"field": "x"}])
_WHOLE: list[Any] = [
    {"addStateStore": {"store": "seen", "keySerde": "string", "logConfig": {"retention.ms": "5"}}},
    {"table": {"topic": "rows", "keySerde": "string", "store": "rows"}, "as": "rows"},
    {"stream": {"topics": ["a", "b"], "valueSerde": "app:thing", "offsetReset": "latest"}, "as": "lines"},
    {"split": {"branches": [{"predicate": "app:thing", "as": "some"}], "default": {"as": "rest"}, "name": "split"}},
    {"process": {"supplier": "app:thing", "stores": ["seen"], "name": "p"}, "from": "some"},
    {"merge": {"with": "rest"}},
    {"repartition": {"partitions": 3, "name": "r"}},
    {"groupBy": {"selector": "value", "combine": True, "name": "g"}},
    {"reduce": {"reducer": "sum", "store": "sums", "emit": "commit", "engine": "memory"}},
    {"mapValues": {"mapper": "app:thing", "store": "mapped"}},
    {"toStream": None},
    {"print": {"label": "x", "mapper": "app:thing"}},
    {"to": {"topicNameExtractor": "app:thing", "partitioner": "app:thing"}, "from": "lines"},
]


class Dropping(Processor):
    def process(self, record: Record) -> None:
        """Forwards nothing."""


def _right(field: str) -> Any:
    """Returns a value that is right where the whole names code."""
    if field.endswith("Serde"):
        return Serdes.string()
    return Dropping if field.endswith("supplier") else lambda *given: given


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key below a value."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _places(item)


@given(st.data())
def test_whatever_is_written_is_built_or_refused_as_the_users_to_mend(data: st.DataObject) -> None:
    steps = deepcopy(_WHOLE)
    for _ in range(data.draw(st.integers(0, 3))):
        container, key = data.draw(st.sampled_from(list(_places(steps))))
        container[key] = deepcopy(data.draw(_JUNK))  # the next one may be put into it
    code = UserCode([])
    code.find = lambda name, field: data.draw(st.sampled_from([_right(field)] * 50 + list(_THINGS)))  # type: ignore[method-assign]
    try:
        told = [f"steps become {build_steps(steps, 'steps', code).describe()}"]
    except ManifestError as error:
        told = error.faults
    assert told
    assert all(line.startswith("steps") for line in told)


def test_a_serde_may_be_a_serde_or_a_function_that_returns_one(tmp_path: Path, code: str) -> None:
    steps = [
        {"stream": {"topic": "a", "keySerde": f"{code}:text", "valueSerde": f"{code}:number"}},
        {"process": f"{code}:Passing"},
        {"to": {"topic": "b", "keySerde": f"{code}:text", "valueSerde": f"{code}:number"}},
    ]
    with TopologyTestDriver(load(tmp_path, code, steps=steps)) as driver:
        driver.create_input_topic("a", Serdes.string(), Serdes.long()).pipe_input("k", 7)
        assert driver.create_output_topic("b", Serdes.string(), Serdes.long()).read_key_values() == [("k", 7)]


def test_a_transformer_of_values_uses_a_store(tmp_path: Path, code: str) -> None:
    texts = {"keySerde": "string", "valueSerde": "string"}
    steps = [
        {"addStateStore": {"store": "seen", **texts}},
        {"table": {"topic": "a", **texts}},
        {"transformValues": {"supplier": f"{code}:Transformer", "stores": ["seen"], "store": "doubled", **texts}},
        {"toStream": None},
        {"to": {"topic": "b", **texts}},
    ]
    with TopologyTestDriver(load(tmp_path, code, steps=steps)) as driver:
        driver.create_input_topic("a", Serdes.string(), Serdes.string()).pipe_input("k", "x")
        assert driver.create_output_topic("b", Serdes.string(), Serdes.string()).read_key_values() == [("k", "xx")]
        assert driver.get_key_value_store("seen").get("k") == "x"
        assert driver.get_key_value_store("doubled").get("k") == "xx"


def test_a_declared_join_prior_finds_records_that_are_older_and_no_others(tmp_path: Path, code: str) -> None:
    texts = {"keySerde": "string", "valueSerde": "string"}
    steps = [
        {"stream": {"topic": "payments", **texts}, "as": "payments"},
        {"stream": {"topic": "orders", **texts}},
        {"joinPrior": {"with": "payments", "joiner": f"{code}:two", "withinMs": 10, "otherValueSerde": "string"}},
        {"mapValues": f"{code}:joined"},
        {"to": {"topic": "paid", **texts}},
    ]
    text = Serdes.string()
    with TopologyTestDriver(load(tmp_path, code, steps=steps)) as driver:
        orders, payments = (driver.create_input_topic(topic, text, text) for topic in ("orders", "payments"))
        orders.pipe_input("k", "o20", 20)
        payments.pipe_input("k", "p20", 20)
        payments.pipe_input("k", "p25", 25)
        payments.pipe_input("k", "p15", 15)
        orders.pipe_input("k", "o24", 24)
        paid = [("k", each) for each in ("o20/p25", "o24/p15", "o24/p20")]
        assert driver.create_output_topic("paid", text, text).read_key_values() == paid


def test_print_writes_lines(tmp_path: Path, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        {"stream": {"topic": "a", "keySerde": "string", "valueSerde": "string"}},
        {"print": {"label": "seen", "mapper": f"{code}:two"}},
    ]
    with TopologyTestDriver(load(tmp_path, code, steps=steps)) as driver:
        driver.create_input_topic("a", Serdes.string(), Serdes.string()).pipe_input("k", "x")
    assert "[seen]: ('k', 'x')" in capsys.readouterr().out


def test_validate_tells_faults_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "app.yaml"
    manifest.write_text(
        "apiVersion: streamsapp.dev/v1alpha1\nkind: StreamsApp\nmetadata: {name: app}\n"
        "spec: {topology: {steps: [{stream: lines}, {filter: 'no_module_of_that_name:f'}, {to: out}]}}\n"
    )
    assert main(["validate", "-f", str(manifest)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"{manifest}: spec.topology.steps[1].filter.predicate: there is no module 'no_module_of_that_name'"
    )
