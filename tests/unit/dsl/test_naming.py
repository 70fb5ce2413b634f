"""``ensure_explicit_internal_resource_naming`` (KIP-1111): stores and internal topics without a name of the user's."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Repartitioned,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
    StreamsRuntime,
    Suppressed,
    TableJoined,
    TimeWindows,
)
from streamsapp.errors import ConfigError
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
READ = Consumed(TEXT, TEXT)
MINUTE = timedelta(minutes=1)
NAMED = StreamsConfig(application_id="a", bootstrap_servers="b:1", ensure_explicit_internal_resource_naming=True)

Lines = KStream[str, str]
Rows = KTable[str, str]


def _fault(build: Callable[[Lines, Rows], Any], optimize: bool = False) -> str:
    builder = StreamsBuilder()
    lines: Lines = builder.stream("lines", READ)
    rows: Rows = builder.table("rows", READ, Materialized("rows"))
    build(lines, rows)
    return builder.build(optimize=optimize).naming_fault() or ""


def _keyed(lines: Lines, name: str | None = None) -> Lines:
    return lines.select_key(lambda key, value: value, name)


def _both(left: Any, right: Any) -> str:
    return f"{left}{right}"


UNNAMED: list[tuple[Callable[[Lines, Rows], Any], list[str]]] = [
    (lambda lines, rows: lines.group_by_key().count(), ["KSTREAM-AGGREGATE-STATE-STORE-0000000003"]),
    (
        lambda lines, rows: _keyed(lines).group_by_key().count(),
        ["KSTREAM-AGGREGATE-STATE-STORE-0000000004", "KSTREAM-AGGREGATE-STATE-STORE-0000000004-repartition"],
    ),
    (
        lambda lines, rows: _keyed(lines).group_by_key(Grouped("g", TEXT, TEXT)).count(),
        ["KSTREAM-AGGREGATE-STATE-STORE-0000000004"],
    ),
    (lambda lines, rows: lines.repartition(), ["KSTREAM-REPARTITION-0000000003-repartition"]),
    (lambda lines, rows: _keyed(lines, "keyed").join(rows, _both), ["keyed-repartition"]),
    (
        lambda lines, rows: _keyed(lines).to_table(Materialized("t")),
        ["KSTREAM-TOTABLE-0000000004-repartition"],
    ),
    (
        lambda lines, rows: rows.group_by(lambda key, value: (value, key)).count(),
        ["KTABLE-AGGREGATE-STATE-STORE-0000000004", "KTABLE-AGGREGATE-STATE-STORE-0000000004-repartition"],
    ),
    (
        lambda lines, rows: lines.left_join(lines, _both, JoinWindows.of(MINUTE), StreamJoined("j", TEXT, TEXT, TEXT)),
        [
            "KSTREAM-JOINTHIS-0000000005-store",
            "KSTREAM-OUTEROTHER-0000000006-store",
            "KSTREAM-OUTERSHARED-0000000005-store",
        ],
    ),
    (
        lambda lines, rows: rows.join(rows, lambda row: row, _both),
        [
            "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000003-topic",
            "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000007",
            "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000011-topic",
        ],
    ),
    (
        lambda lines, rows: rows.suppress(Suppressed.until_time_limit(MINUTE, Suppressed.BufferConfig.unbounded())),
        ["KTABLE-SUPPRESS-STATE-STORE-0000000004"],
    ),
]


@pytest.mark.parametrize(("build", "names"), UNNAMED)
def test_stores_and_internal_topics_with_generated_names_are_found(
    build: Callable[[Lines, Rows], Any], names: list[str]
) -> None:
    fault = _fault(build)
    assert fault.startswith("generated names: ")
    found = re.findall(r"(?:state store|internal topic) (\S+) \(added at \S*test_naming\.py:\d+\)", fault)
    assert sorted(found) == sorted(names)


NAMES: list[Callable[[Lines, Rows], Any]] = [
    lambda lines, rows: lines.group_by_key().count(Materialized("counts")),
    lambda lines, rows: _keyed(lines).group_by_key().count(Materialized("counts")),
    lambda lines, rows: _keyed(lines).group_by_key(Grouped("g", TEXT, TEXT)).count(Materialized("counts")),
    lambda lines, rows: lines.repartition(Repartitioned("again")),
    lambda lines, rows: _keyed(lines).join(rows, _both, Joined("j", TEXT, TEXT)),
    lambda lines, rows: _keyed(lines).to_table("latest", Materialized("t")),
    lambda lines, rows: rows.group_by(lambda key, value: (value, key)).count(Materialized("counts")),
    lambda lines, rows: lines.left_join(
        lines, _both, JoinWindows.of(MINUTE), StreamJoined("j", TEXT, TEXT, TEXT, store_name="joined")
    ),
    lambda lines, rows: rows.join(rows, lambda row: row, _both, TableJoined("fk")),
    lambda lines, rows: (
        lines.group_by_key()
        .windowed_by(TimeWindows.of(MINUTE))
        .count(Materialized("counts"))
        .suppress(Suppressed.until_window_closes(Suppressed.BufferConfig.unbounded()).with_name("calm"))
    ),
    # A name that is as Kafka Streams would generate it is the user's, as he keeps the state of before by it.
    lambda lines, rows: lines.group_by_key().count(Materialized("KSTREAM-AGGREGATE-STATE-STORE-0000000003")),
    # A part that the topology does not have in the end needs no name.
    lambda lines, rows: rows.filter(lambda key, value: True).map_values(str.upper).to_stream(),
]


@pytest.mark.parametrize("build", NAMES)
def test_a_topology_whose_stores_and_internal_topics_are_named_has_no_fault(
    build: Callable[[Lines, Rows], Any],
) -> None:
    assert _fault(build) == ""
    assert _fault(build, optimize=True) == ""


def test_a_table_and_a_global_table_without_a_name_have_generated_ones() -> None:
    builder = StreamsBuilder()
    rows: Rows = builder.table("rows", READ)
    builder.stream("lines", READ).join(rows, _both)
    builder.global_table("codes", READ)
    fault = builder.build().naming_fault() or ""
    assert "state store rows-STATE-STORE-0000000000 (added at " in fault
    assert re.search(r"state store codes-STATE-STORE-\d{10} \(added at \S*test_naming\.py", fault)


def test_the_runtime_and_the_test_driver_refuse_generated_names_only_where_that_is_configured() -> None:
    builder = StreamsBuilder()
    builder.stream("lines", READ).group_by_key().count()
    topology = builder.build()
    for start in (StreamsRuntime, TopologyTestDriver):
        with pytest.raises(ConfigError) as refused:
            start(topology, NAMED)
        told = str(refused.value)
        assert told.startswith(
            "ensure_explicit_internal_resource_naming: generated names: state store "
            "KSTREAM-AGGREGATE-STATE-STORE-0000000001 (added at "
        )
        assert 'name stores with Materialized("name")' in told
    with TopologyTestDriver(topology):
        StreamsRuntime(topology, StreamsConfig(application_id="a", bootstrap_servers="b:1"))
