"""The faults of declared steps are reported without any code, all at once, each with its path and the remedy."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from streamsapp.declared.faults import MAX_FAULTS
from streamsapp.declared.operations import OPERATIONS
from streamsapp.declared.steps import DeclaredSteps

LINES = {"stream": "lines"}


def faults(steps: list[Any]) -> list[str]:
    return DeclaredSteps(steps, "steps").faults


def in_yaml(text: str) -> list[str]:
    return faults(yaml.safe_load(text))


def test_all_faults_are_told_at_once() -> None:
    assert in_yaml("""
    - stream: {topic: lines, keySerde: strin, offsetReset: early}
      as: lines
    - filter: {predicat: "app:f"}
    - flatMapValues: wrds
    - groupBy: "app:"
    - count: {store: "co unts", engine: disk}
    - toStream
    - to: {}
    - from: lins
      map: "app:f"
    """) == [
        "steps[0].stream.keySerde: expected a serde as module:attribute or a name, got 'strin'; did you mean 'string'?",
        "steps[0].stream.offsetReset: expected earliest, latest, none or by_duration:PT1H, got 'early'",
        "steps[1].filter.predicat: unknown field; did you mean 'predicate'?",
        "steps[1].filter.predicate: is required",
        (
            "steps[2].flatMapValues.mapper: expected a function as module:attribute or a name, got 'wrds'; "
            "did you mean 'words'?"
        ),
        "steps[3].groupBy.selector: expected module:attribute, got 'app:'",
        "steps[4].count.store: expected a name of ASCII letters, digits, '.', '_' and '-', got 'co unts'",
        "steps[4].count.engine: expected 'memory' or 'rocksdb', got 'disk'",
        "steps[6].to: expected exactly one of topic, topicNameExtractor, got none",
        "steps[7].from: no earlier step gives 'lins'; did you mean 'lines'?",
    ]


def test_stores_of_single_sides_of_a_join_have_names_of_their_own() -> None:
    assert in_yaml("""
    - addStateStore: seen
    - stream: rights
      as: rights
    - stream: lefts
    - join:
        with: rights
        joiner: "app:f"
        withinMs: 5
        thisStore: {store: seen, engine: disk}
        otherStore: {engine: memory}
      as: joined
    - join: {with: rights, joiner: "app:f", withinMs: 5, thisStore: {store: seen}, otherStore: {store: both}}
      from: rights
    - leftJoin: {with: rights, joiner: "app:f", withinMs: 5, store: both}
    """) == [
        "steps[3].join.thisStore.engine: expected 'memory' or 'rocksdb', got 'disk'",
        "steps[3].join.otherStore.store: is required",
        (
            "steps[4].join.thisStore.store: 'seen' is the name of another store (steps[0].addStateStore.store); "
            "choose another"
        ),
        "steps[5].leftJoin.store: 'both' is the name of another store (steps[4].join.otherStore.store); choose another",
    ]


def test_faults_of_windows_suppression_and_joins_name_the_remedy() -> None:
    assert in_yaml("""
    - globalTable: {topic: names}
      as: names
    - table: rows
      as: rows
    - suppress: {untilWindowCloses: true, untilTimeLimitMs: 5}
    - stream: lines
      as: lines
    - join: {with: names, joiner: "app:f"}
    - leftJoin: {with: rows, joiner: "app:f", keySelector: "app:f"}
    - join: {with: lines, joiner: "app:f"}
    - groupByKey: {}
      as: groups
    - windowedBy: {sizeMs: -1}
    - from: groups
      windowedBy: {sizeMs: 1, gapMs: 1}
    - from: groups
      windowedBy: {gapMs: 1, emitStrategy: close}
    - from: groups
      windowedBy: {gapMs: 1}
    - aggregate: {initializer: "app:f", aggregator: "app:f"}
    """) == [
        (
            "steps[2].suppress: expected exactly one of untilWindowCloses, untilTimeLimitMs, "
            "got untilWindowCloses and untilTimeLimitMs"
        ),
        "steps[4].join.keySelector: is required",
        "steps[5].leftJoin.keySelector: unknown field; did you mean 'keySerde'?",
        "steps[6].join.withinMs: is required",
        "steps[8].windowedBy.sizeMs: expected an integer ≥ 0, got -1",
        (
            "steps[9].windowedBy: expected exactly one of sizeMs, differenceMs, gapMs, startMs, records, "
            "got sizeMs and gapMs"
        ),
        "steps[10].windowedBy.emitStrategy: expected 'onWindowClose' or 'onWindowUpdate', got 'close'",
        "steps[12].aggregate.merger: is required",
    ]


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        (3, "steps[1]: expected a mapping with one operation, got 3"),
        ({}, "steps[1]: expected one operation, got none"),
        ({"filter": "a:b", "map": "a:b"}, "steps[1]: expected one operation, got filter and map"),
        ({"filter": "a:b", "form": "x"}, "steps[1].form: unknown field; did you mean 'from'?"),
        ({"fliter": "a:b"}, "steps[1].fliter: there is no such operation; did you mean 'filter'?"),
        (
            {"count": {}},
            ("steps[1].count: a stream has no count, a grouped stream has; group it first, with groupBy or groupByKey"),
        ),
        (
            {"toStream": {}},
            ("steps[1].toStream: a stream has no toStream, a table has; make it a table first, with toTable"),
        ),
        ({"filter": {"predicate": "a:b", "as": "x"}}, "steps[1].filter.as: write it beside filter, not below"),
        ({"filter": {"contains": 3}}, "steps[1].filter.predicate: 'contains' needs a text, got 3"),
        ({"filter": "contains"}, "steps[1].filter.predicate: 'contains' needs a text: {contains: ...}"),
        ({"filter": 3}, "steps[1].filter.predicate: expected a predicate as module:attribute or a name, got 3"),
        ({"map": "lower"}, "steps[1].map.mapper: expected a function as module:attribute, got 'lower'"),
        (
            {"map": {"mapper": {"split": ","}}},
            ("steps[1].map.mapper: expected a function as module:attribute, got 'split'"),
        ),
        ({"merge": "other"}, "steps[1].merge.with: no earlier step gives 'other'; name what a step gives with as"),
        (
            {"process": {"supplier": "a:b", "stores": ["s"]}},
            ("steps[1].process.stores[0]: no earlier step has a store 's'; add it first, with addStateStore"),
        ),
        ({"split": {"branches": []}}, "steps[1].split.branches: expected a list that is not empty"),
        ({"split": {"branches": [{}]}}, "steps[1].split.branches[0].predicate: is required"),
        ({"repartition": {"partitions": 0}}, "steps[1].repartition.partitions: expected an integer ≥ 1, got 0"),
        ({"groupByKey": "x"}, "steps[1].groupByKey: expected a mapping, got 'x'"),
        ({"to": "t", "as": "x"}, "steps[1].as: to gives nothing to be named; leave as out"),
        ({"peek": "a:b", "as": 3}, "steps[1].as: expected a name, got 3"),
        ({"table": "t", "from": "x"}, "steps[1].from: table reads its own topic; leave from out"),
        (
            {"stream": {"topic": "a", "topics": ["b"]}},
            ("steps[1].stream: expected exactly one of topic, topics, pattern, got topic and topics"),
        ),
        (
            {"stream": {"pattern": "("}},
            (
                "steps[1].stream.pattern: '(' is not a regular expression: "
                "missing ), unterminated subpattern at position 0"
            ),
        ),
    ],
)
def test_a_fault_names_the_step_and_the_remedy(step: object, fault: str) -> None:
    assert faults([LINES, step]) == [fault]


def test_faults_of_joins_are_those_of_the_kind_that_is_joined() -> None:
    assert in_yaml("""
    - stream: others
      as: others
    - table: rows
      as: rows
    - globalTable: names
      as: names
    - stream: lines
    - outerJoin: {with: rows, joiner: "app:f", withinMs: 5}
    - join: {with: others, joiner: "app:f", withinMs: -5}
    - join: {with: rows, joiner: "app:f", withinMs: 5}
    - join: {with: names, joiner: "app:f", keySelector: "app:f", graceMs: 4}
    - from: rows
      outerJoin: {with: others, joiner: "app:f"}
    - from: rows
      leftJoin: {with: rows, joiner: "app:f", foreignKeyExtractor: nothing}
    """) == [
        "steps[4].outerJoin.with: 'rows' is a table; make it a stream first, with toStream",
        "steps[5].join.withinMs: expected an integer ≥ 0, got -5",
        "steps[6].join.withinMs: unknown field; did you mean 'with'?",
        "steps[7].join.graceMs: unknown field; known fields are name, with, joiner, keySelector",
        "steps[8].outerJoin.with: 'others' is a stream; make it a table first, with toTable",
        (
            "steps[9].leftJoin.foreignKeyExtractor: expected a function as module:attribute or a name, got 'nothing'; "
            "built in are lower, upper, strip, field"
        ),
    ]


def test_only_grouped_streams_are_cogrouped_and_sessions_need_a_merger() -> None:
    assert in_yaml("""
    - stream: words
      as: words
    - groupByKey
    - cogroup: "app:f"
      as: both
    - cogroup: {with: words, aggregator: "app:f"}
    - from: both
      windowedBy: {gapMs: 5}
    - aggregate: {initializer: "app:f"}
    """) == [
        "steps[3].cogroup.with: 'words' is a stream; group it first, with groupBy or groupByKey",
        "steps[5].aggregate.merger: is required",
    ]


@pytest.mark.parametrize("steps", [[], [{"addStateStore": "s"}]])
def test_steps_that_read_nothing_are_refused(steps: list[Any]) -> None:
    assert faults(steps) == ["steps: reads nothing; begin with stream or table"]


def test_a_first_step_that_continues_is_told_to_begin() -> None:
    assert faults([{"filter": "a:b"}, LINES]) == [
        "steps[0].filter: there is nothing to continue from: nothing was read yet; begin with stream or table"
    ]


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ({"to": "t"}, "to ends a stream; name what comes before it with as, and continue with from"),
        (
            {"split": {"branches": [{"predicate": "a:b"}]}},
            "split gives branches; name them with as, and continue from one with from",
        ),
    ],
)
def test_what_comes_after_an_end_needs_a_name_to_continue_from(end: dict[str, Any], why: str) -> None:
    assert faults([LINES, end, {"peek": "a:b"}]) == [f"steps[2].peek: there is nothing to continue from: {why}"]


def test_what_follows_an_unknown_operation_may_be_right() -> None:
    steps = [LINES, {"fliter": "a:b"}, {"mapValues": "a:b"}, {"filter": {"nonsense": 1}}, {"count": {}}]
    assert len(faults(steps)) == 1


@pytest.mark.parametrize(
    ("wrong", "use"),
    [
        ({"filter": "nonsense", "as": "x"}, {"peek": "a:b", "from": "x"}),
        ({"filter": "a:b", "map": "a:b", "as": "x"}, {"peek": "a:b", "from": "x"}),
        ({"split": {"branches": [{"predicate": "nonsense", "as": "x"}]}}, {"peek": "a:b", "from": "x"}),
        ({"addStateStore": {"store": "s", "engine": "disk"}}, {"process": {"supplier": "a:b", "stores": ["s"]}}),
    ],
)
def test_what_a_step_with_faults_names_is_not_missed(wrong: dict[str, Any], use: dict[str, Any]) -> None:
    assert len(faults([LINES, wrong])) == 1
    assert faults([LINES, wrong, use]) == faults([LINES, wrong])


def test_a_table_takes_where_it_is_kept_and_a_stream_does_not() -> None:
    assert faults([{"table": "t"}, {"filter": {"predicate": "a:b", "store": "s"}}]) == []
    assert faults([LINES, {"filter": {"predicate": "a:b", "store": "s"}}])[0].startswith(
        "steps[1].filter.store: unknown field"
    )


def test_only_streams_are_merged() -> None:
    assert faults([{"table": "t", "as": "rows"}, LINES, {"merge": "rows"}]) == [
        "steps[2].merge.with: 'rows' is a table; make it a stream first, with toStream"
    ]


def test_names_are_given_once() -> None:
    table = {"table": {"topic": "t", "store": "s", "name": "n"}, "as": "x"}
    again = {"table": {"topic": "u", "store": "s", "name": "n"}, "as": "x"}
    assert faults([table, again]) == [
        "steps[1].as: 'x' is the name of an earlier step; choose another",
        "steps[1].table.name: 'n' is the name of another node (steps[0].table.name); choose another",
        "steps[1].table.store: 's' is the name of another store (steps[0].table.store); choose another",
    ]


def test_a_global_store_is_not_connected() -> None:
    steps = [{"globalTable": {"topic": "g", "store": "s"}}, LINES, {"process": {"supplier": "a:b", "stores": ["s"]}}]
    assert faults(steps) == ["steps[2].process.stores[0]: 's' is a global store, open to every processor; leave it out"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["lines", "a:b", "value"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_OPERATIONS = st.sampled_from(sorted({name for operations in OPERATIONS.values() for name in operations}))
_FIELDS = st.sampled_from(["topic", "predicate", "mapper", "store", "stores", "with", "branches", "keySerde", "as"])
_OPTIONS = _JSON | st.dictionaries(_FIELDS, _JSON, max_size=3)
_STEPS = st.lists(
    _JSON
    | st.builds(
        lambda name, options, rest: {name: options, **rest},
        _OPERATIONS,
        _OPTIONS,
        st.dictionaries(st.sampled_from(["from", "as"]), st.sampled_from(["x", "y", "z"]) | _JSON, max_size=2),
    ),
    max_size=6,
)


@given(_STEPS)
def test_whatever_is_written_is_right_or_has_faults(steps: list[Any]) -> None:
    flow = DeclaredSteps([LINES, *steps], "steps")
    assert len(flow.steps) == len(steps) + 1 or flow.faults
    assert all(line.startswith("steps[") for line in flow.faults)


def test_no_more_faults_are_looked_for_than_are_told() -> None:
    assert len(faults([LINES, *[{f"filtre{number}": 1} for number in range(90_000)]])) == MAX_FAULTS
