"""Programs that every user writes, by hand: random programs may miss these cases by chance; these cannot."""

from __future__ import annotations

from typing import Any

from second_day import SECOND_DAY

Program = dict[str, Any]
Step = dict[str, Any]

TEXTS = {"key": "string", "value": "string"}
TEXT_TO_LONG = {"key": "string", "value": "long"}

_WORDS: list[Step] = [
    {"topic": "lines", "key": None, "value": "all streams lead to kafka", "ts": 100},
    {"topic": "lines", "key": "k", "value": "hello kafka streams", "ts": 90, "headers": [["trace", "AQ=="]]},
    {"topic": "lines", "key": "k", "value": None, "ts": 110},
    {"topic": "lines", "key": "k", "value": "", "ts": 110},
    {"topic": "lines", "key": "k", "value": "kafka kafka", "ts": 110},
]

_ROWS: list[Step] = [
    {"topic": "rows", "key": "anna", "value": "berlin", "ts": 10},
    {"topic": "rows", "key": "ben", "value": "berlin", "ts": 20},
    {"topic": "rows", "key": "anna", "value": "paris", "ts": 15},
    {"topic": "rows", "key": None, "value": "rome", "ts": 30},
    {"topic": "rows", "key": "ben", "value": None, "ts": 30},
    {"topic": "rows", "key": "carl", "value": None, "ts": 30},
    {"topic": "rows", "key": "anna", "value": "paris", "ts": 40},
]


def _program(steps: list[Step], inputs: dict[str, Any], events: list[Step]) -> Program:
    return {"api": "dsl", "optimize": False, "steps": steps, "inputs": inputs, "events": events}


def _word_count() -> Program:
    steps: list[Step] = [
        {"op": "stream", "id": "lines", "topics": ["lines"], "consumed": TEXTS},
        {"op": "flat_map_values", "id": "words", "of": "lines", "fn": "words"},
        {"op": "group_by", "id": "groups", "of": "words", "fn": "text_of_value", "grouped": TEXTS},
        {"op": "count", "id": "counts", "of": "groups", "materialized": {"name": "counts"}},
        {"op": "to_stream", "id": "updates", "of": "counts"},
        {"op": "to", "of": "updates", "topic": "counts-out", "produced": TEXT_TO_LONG},
    ]
    return _program(steps, {"lines": TEXTS}, _WORDS)


def _table_counted_by_value() -> Program:
    steps: list[Step] = [
        {"op": "table", "id": "rows", "topic": "rows", "consumed": TEXTS, "materialized": {"name": "rows"}},
        {"op": "group_by", "id": "cities", "of": "rows", "fn": "value_as_key", "grouped": TEXTS},
        {"op": "count", "id": "counts", "of": "cities"},
        {"op": "to_stream", "id": "updates", "of": "counts"},
        {"op": "to", "of": "updates", "topic": "counts-out", "produced": TEXT_TO_LONG},
    ]
    return _program(steps, {"rows": TEXTS}, _ROWS)


def _table_aggregated_by_letter() -> Program:
    steps: list[Step] = [
        {"op": "table", "id": "rows", "topic": "rows", "consumed": TEXTS},
        {"op": "filter", "id": "kept", "of": "rows", "fn": "value_even", "materialized": {"name": "kept", **TEXTS}},
        {
            "op": "group_by",
            "id": "letters",
            "of": "kept",
            "fn": "first_letter",
            "grouped": {"name": "letters", **TEXTS},
        },
        {
            "op": "aggregate",
            "id": "joined",
            "of": "letters",
            "init": "empty",
            "fn": "join",
            "subtract": "unjoin",
            "materialized": {"value": "string"},
        },
        {"op": "to_stream", "id": "updates", "of": "joined"},
        {"op": "to", "of": "updates", "topic": "joined-out", "produced": {}},
    ]
    return _program(steps, {"rows": TEXTS}, _ROWS)


def _branches_of_a_pattern() -> Program:
    steps: list[Step] = [
        {"op": "stream", "id": "all", "pattern": "in-.*", "consumed": TEXTS},
        {
            "op": "split",
            "of": "all",
            "name": "by-",
            "branches": [{"id": "even", "fn": "value_even", "name": "even"}, {"id": "key", "fn": "key_present"}],
            "default": {"id": "rest", "name": "rest"},
        },
        {"op": "merge", "id": "merged", "of": "even", "with": "rest"},
        {"op": "to", "of": "merged", "topic": "merged-out", "produced": TEXTS},
        {"op": "to", "of": "key", "extractor": "by_source_topic", "produced": TEXTS},
    ]
    events: list[Step] = [
        {"topic": "in-b", "key": "k", "value": "odd", "ts": 5},
        {"topic": "in-a", "key": None, "value": "even", "ts": 3},
        {"topic": "in-b", "key": None, "value": "odd", "ts": 3},
        {"topic": "in-a", "key": "", "value": "", "ts": 4},
    ]
    return _program(steps, {"in-a": TEXTS, "in-b": TEXTS}, events)


def _keys_changed_twice() -> Program:
    steps: list[Step] = [
        {"op": "stream", "id": "lines", "topics": ["lines"], "consumed": TEXTS},
        {"op": "select_key", "id": "keyed", "of": "lines", "fn": "first_letter"},
        {"op": "group_by_key", "id": "first", "of": "keyed", "grouped": TEXTS},
        {"op": "count", "id": "counts", "of": "first", "materialized": {"name": "first-count"}},
        {"op": "map_values", "id": "sized", "of": "keyed", "fn": "length"},
        {"op": "group_by_key", "id": "second", "of": "sized", "grouped": TEXT_TO_LONG},
        {"op": "reduce", "id": "sums", "of": "second", "fn": "sum", "materialized": {"name": "sums"}},
        {"op": "to_stream", "id": "updates", "of": "sums"},
        {"op": "to", "of": "updates", "topic": "sums-out", "produced": {}},
    ]
    return _program(steps, {"lines": TEXTS}, _WORDS)


def _user_code_that_fails() -> Program:
    steps: list[Step] = [
        {"op": "stream", "id": "lines", "topics": ["lines"], "consumed": TEXTS},
        {"op": "filter", "id": "checked", "of": "lines", "fn": "fail_on_boom"},
        {"op": "to", "of": "checked", "topic": "checked-out", "produced": TEXTS},
    ]
    events: list[Step] = [
        {"topic": "lines", "key": "k", "value": "fine", "ts": 1},
        {"topic": "lines", "key": "k", "value": "boom", "ts": 2},
        {"topic": "lines", "key": "k", "value": "never seen", "ts": 3},
    ]
    return _program(steps, {"lines": TEXTS}, events)


def _bytes_that_are_no_long() -> Program:
    steps: list[Step] = [
        {"op": "stream", "id": "numbers", "topics": ["numbers"], "consumed": TEXT_TO_LONG},
        {"op": "to", "of": "numbers", "topic": "numbers-out", "produced": {}},
    ]
    events: list[Step] = [
        {"topic": "numbers", "key": "k", "value": 7, "ts": 1},
        {"topic": "numbers", "key": "k", "value_raw": "AQID", "ts": 2},
    ]
    return _program(steps, {"numbers": TEXT_TO_LONG}, events)


def _punctuated_store() -> Program:
    steps: list[Step] = [
        {"op": "stream", "id": "rows", "topics": ["rows"], "consumed": TEXTS},
        {"op": "store", "name": "last", "kind": "kv", **TEXTS},
        {
            "op": "process",
            "id": "dumped",
            "of": "rows",
            "processor": "dump_stream_time",
            "interval": 10,
            "stores": ["last"],
        },
        {"op": "process", "id": "ticks", "of": "rows", "processor": "tick_wall_clock", "interval": 7},
        {"op": "process", "id": "stream-ticks", "of": "rows", "processor": "tick_stream_time", "interval": 4},
        {"op": "to", "of": "dumped", "topic": "dumped-out", "produced": TEXTS},
        {"op": "to", "of": "ticks", "topic": "ticks-out", "produced": TEXTS},
        {"op": "to", "of": "stream-ticks", "topic": "stream-ticks-out", "produced": TEXTS},
    ]
    return _program(steps, {"rows": TEXTS}, [*_ROWS[:3], {"advance": 5}, {"advance": 30}, *_ROWS[3:], {"advance": 7}])


def _scheduled(times: list[int], interval: int) -> tuple[list[Step], list[Step]]:
    """Every record schedules two calls: steps and events."""
    steps: list[Step] = [
        {"op": "stream", "id": "rows", "topics": ["rows"], "consumed": TEXTS},
        {"op": "process", "id": "ticks", "of": "rows", "processor": "scheduling", "interval": interval},
        {"op": "to", "of": "ticks", "topic": "ticks-out", "produced": TEXTS},
    ]
    return steps, [{"topic": "rows", "key": "k", "value": f"v{at}", "ts": ts} for at, ts in enumerate(times)]


def _scheduled_while_time_stands_still() -> Program:
    steps, events = _scheduled([105, 105, 90, 117, 117], 10)
    return _program(steps, {"rows": TEXTS}, [{"advance": 5}, *events[:3], {"advance": 30}, *events[3:]])


def _scheduled_before_a_record_that_is_dropped() -> Program:
    """A record without a valid time moves no stream time, and what the wall clock has scheduled since is called."""
    steps, events = _scheduled([105, 117], 10)
    dropped: Step = {"op": "stream", "id": "odd", "topics": ["dropped"]}
    steps.append({**dropped, "consumed": {**TEXTS, "extractor": "negative_if_odd"}})
    later: Step = {"topic": "dropped", "key": "k", "value": "odd", "ts": 110}
    return _program(steps, {"rows": TEXTS, "dropped": TEXTS}, [events[0], {"advance": 15}, later, events[1]])


def _due_together() -> Program:
    """Calls that have ended take no part in the order of the calls that are due at the same time."""
    steps, events = _scheduled([136, 144, 154, 154, 164], 20)
    return _program(steps, {"rows": TEXTS}, events)


def _global_table_and_store() -> Program:
    store: Step = {"name": "kept", "kind": "kv", "logging": False, **TEXTS}
    extracted = {**TEXTS, "extractor": "value_times_ten"}
    steps: list[Step] = [
        {"op": "global_table", "topic": "rates", "consumed": extracted, "materialized": {"name": "rates"}},
        {"op": "stream", "id": "orders", "topics": ["orders"], "consumed": TEXTS},
        {"op": "global_table", "topic": "unnamed", "consumed": {**TEXTS, "name": "read-here"}},
        {"op": "global_store", "store": store, "topic": "names", "consumed": TEXTS},
        {"op": "process", "id": "rated", "of": "orders", "processor": "read", "global": "rates"},
        {"op": "process", "id": "named", "of": "orders", "processor": "read", "global": "kept"},
        {"op": "to", "of": "rated", "topic": "rated-out", "produced": TEXTS},
        {"op": "to", "of": "named", "topic": "names", "produced": TEXTS},
    ]
    events: list[Step] = [
        {"topic": "orders", "key": "a", "value": "1", "ts": 1},
        {"topic": "rates", "key": "a", "value": "5", "ts": 9},
        {"topic": "rates", "key": None, "value": "5", "ts": 9},
        {"topic": "names", "key": None, "value": "nobody", "ts": 9},
        {"topic": "orders", "key": "a", "value": "1", "ts": 2},
        {"topic": "rates", "key": "a", "value": "6", "ts": 3},
        {"topic": "rates", "key": "b", "value": None, "ts": 3},
        {"topic": "orders", "key": "a", "value": "1", "ts": 4},
        {"topic": "names", "key": "a", "value": "anna", "ts": 4, "headers": [["trace", "AQ=="]]},
        {"topic": "orders", "key": "a", "value": "1", "ts": 5},
        {"topic": "rates", "key": "a", "value": None, "ts": 6},
        {"topic": "orders", "key": "a", "value": "1", "ts": 7},
        {"topic": "rates", "key": "last", "value": "7", "ts": 7},
    ]
    return _program(steps, {"rates": TEXTS, "orders": TEXTS, "unnamed": TEXTS, "names": TEXTS}, events)


def _read_only_store() -> Program:
    """Orders find their customers in a store that each task fills from its partition of a topic."""
    store: Step = {"name": "customers", "kind": "kv", "logging": False, **TEXTS}
    filled: Step = {"source": "customers-source", "processor": "customers-processor", **TEXTS}
    steps: list[Step] = [
        {"op": "read_only_store", "store": store, "topic": "customers", **filled},
        {"op": "stream", "id": "orders", "topics": ["orders"], "consumed": TEXTS},
        {"op": "stream", "id": "others", "topics": ["others"], "consumed": TEXTS},
        {"op": "process", "id": "found", "of": "orders", "processor": "read", "stores": ["customers"], "name": "find"},
        {"op": "to", "of": "found", "topic": "found", "produced": TEXTS},
        {"op": "to", "of": "others", "topic": "copied", "produced": TEXTS},
    ]
    events: list[Step] = [
        {"topic": "orders", "key": "a", "value": "1", "ts": 1},
        {"topic": "customers", "key": "a", "value": "anna", "ts": 2},
        {"topic": "orders", "key": "a", "value": "2", "ts": 3},
        {"topic": "customers", "key": "b", "value": "ben", "ts": 1},
        {"topic": "orders", "key": "b", "value": "3", "ts": 3},
        {"topic": "others", "key": "b", "value": "4", "ts": 3},
        {"topic": "customers", "key": "a", "value": None, "ts": 4},
        {"topic": "orders", "key": "a", "value": "5", "ts": 5},
    ]
    return _program(steps, {"customers": TEXTS, "orders": TEXTS, "others": TEXTS}, events)


def _everything_to_optimise() -> Program:
    """A table, two groups behind one change of key, and a stream that is joined with itself."""
    sides = {**TEXTS, "other_value": "string"}
    pairs: Step = {"op": "join", "id": "pairs", "of": "visits", "with": "visits", "fn": "both", "stream_joined": sides}
    steps: list[Step] = [
        {"op": "table", "id": "rows", "topic": "rows", "consumed": TEXTS, "materialized": {"name": "rows"}},
        {"op": "stream", "id": "visits", "topics": ["visits"], "consumed": TEXTS},
        {"op": "select_key", "id": "keyed", "of": "visits", "fn": "first_letter"},
        {"op": "group_by_key", "id": "one", "of": "keyed", "grouped": TEXTS},
        {"op": "count", "id": "counts", "of": "one"},
        {"op": "group_by_key", "id": "two", "of": "keyed", "grouped": TEXTS},
        {"op": "reduce", "id": "texts", "of": "two", "fn": "concat"},
        {**pairs, "windows": {"size": 10}},
        {"op": "to", "of": "pairs", "topic": "pairs", "produced": TEXTS},
    ]
    events: list[Step] = [
        {"topic": "rows", "key": "a", "value": "row", "ts": 1},
        {"topic": "visits", "key": "a", "value": "x1", "ts": 2},
        {"topic": "visits", "key": "a", "value": "y2", "ts": 4},
        {"topic": "visits", "key": "b", "value": "x3", "ts": 3},
        {"topic": "visits", "key": "a", "value": "x4", "ts": 20},
        {"topic": "rows", "key": "a", "value": None, "ts": 21},
    ]
    return _program(steps, {"rows": TEXTS, "visits": TEXTS}, events)


_OPTIMISATIONS = ("reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join")

CLASSICS: dict[str, Program] = {
    "word count": _word_count(),
    "word count, optimised": {**_word_count(), "optimize": True},
    "table counted by value": _table_counted_by_value(),
    "table counted by value, optimised": {**_table_counted_by_value(), "optimize": True},
    "table aggregated by letter": _table_aggregated_by_letter(),
    "branches of a pattern": _branches_of_a_pattern(),
    "keys changed, grouped twice": _keys_changed_twice(),
    "keys changed, grouped twice, optimised": {**_keys_changed_twice(), "optimize": True},
    "user code that fails": _user_code_that_fails(),
    "bytes that are no long": _bytes_that_are_no_long(),
    "global table and global store": _global_table_and_store(),
    "read-only store": _read_only_store(),
    "read-only store, optimised": {**_read_only_store(), "optimize": True},
    **{f"only {name}": {**_everything_to_optimise(), "optimize": name} for name in _OPTIMISATIONS},
    "two optimisations of three": {**_everything_to_optimise(), "optimize": ", ".join(_OPTIMISATIONS[1:])},
    "store punctuated by stream time, ticks by both times": _punctuated_store(),
    "calls scheduled while stream time stands still": _scheduled_while_time_stands_still(),
    "calls scheduled before a record that is dropped": _scheduled_before_a_record_that_is_dropped(),
    "calls due together, some of which have ended": _due_together(),
    **SECOND_DAY,
}
