"""The programs of this folder as data: ``spec.topology.steps``, or ``spec.topology.graph`` for the Topology API.

Called by tests of declared topologies, on the test's thread. A declaration names code, so the functions and processors
of a program are attributes of ``code`` here, which the caller finds for it.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import functions
from one_function import operations, table_and_field
from options import serde
from processors import supplier
from streamsapp.declared.roles import PREDICATE
from window_steps import transformer

Step = dict[str, Any]

_SERDES = {"key": "keySerde", "value": "valueSerde"}
_PLAIN = {**_SERDES, "name": "name", "reset": "offsetReset", "partitions": "partitions", "stores": "stores"}
_STORE = {**_SERDES, "engine": "engine", "logging": "logging", "caching": "caching"}
_ADDS = {
    "store": "add_state_store",
    "global_store": "add_global_store",
    "read_only_store": "add_read_only_state_store",
}
_STORE_TYPES = {
    "kv": "keyValue",
    "timestamped": "timestampedKeyValue",
    "headed": "timestampedKeyValueWithHeaders",
    "headed_window": "timestampedWindowWithHeaders",
    "headed_session": "sessionWithHeaders",
}
#: By the kind of windows, what their first number is called.
_WINDOWS = {"time": "sizeMs", "sliding": "differenceMs", "session": "gapMs", "unlimited": "startMs"}

#: Operations with one function that ``one_function`` has not: the table it is in, and its field.
_WITH_FUNCTION = {
    "map": ("PAIR_MAPPERS", "mapper"),
    "flat_map": ("FLAT_MAPPERS", "mapper"),
    "map_values": ("VALUE_MAPPERS", "mapper"),
    "flat_map_values": ("FLAT_VALUE_MAPPERS", "mapper"),
    "to_stream": ("KEY_SELECTORS", "mapper"),
}
_GIVES_TABLE = {"table", "to_table", "count", "reduce", "aggregate", "suppress", "transform_values"}
_JOINED = {**_PLAIN, "other_value": "otherValueSerde"}
_STREAM_JOINED = {**_JOINED, "store_name": "store", "engine": "engine", "logging": "logging"}
_PARTITIONERS = {"partitioner": "partitioner", "other_partitioner": "otherPartitioner"}
_KEEPS_KIND = {*operations("table", PREDICATE), "map_values"}


def _options(given: Step, fields: dict[str, str]) -> Step:
    return {field: given[name] for name, field in fields.items() if name in given}


class Declarer:
    """Declares one program."""

    def __init__(self) -> None:
        self.code = SimpleNamespace(ignore=lambda key, value: None)
        self._tables: set[str] = set()

    def steps(self, program: Step) -> list[Step]:
        """``spec.topology.steps``."""
        return [self._step(step) for step in program["steps"]]

    def graph(self, program: Step) -> Step:
        """``spec.topology.graph``."""
        steps = program["steps"]
        graph: Step = {
            "sources": [self._source(step) for step in steps if step["op"] == "source"],
            "processors": [
                {
                    **_options(step, {"name": "name", "parents": "parents", "stores": "stores"}),
                    "supplier": self._supplier(step),
                }
                for step in steps
                if step["op"] == "processor"
            ],
            "sinks": [self._sink(step) for step in steps if step["op"] == "sink"],
            "stores": [{"name": step["name"], **self._store(step)} for step in steps if step["op"] == "store"],
            "globalStores": [self._filled(step) for step in steps if step["op"] == "global_store"],
            "readOnlyStores": [self._filled(step) for step in steps if step["op"] == "read_only_store"],
        }
        return graph

    # ---- parts -------------------------------------------------------------------------------------------------

    def _named(self, thing: Any, name: str) -> str:
        setattr(self.code, name, thing)
        return f"code:{name}"

    def _function(self, table: str, name: str) -> str:
        return self._named(getattr(functions, table)[name], f"{table.lower()}_{name}")

    def _supplier(self, step: Step) -> str:
        return self._named(supplier(step), f"supplier_{len(vars(self.code))}")

    def _store(self, step: Step) -> Step:
        kind = step.get("kind", "kv")
        kept = {"retention": "retentionMs"} | ({"size": "windowSizeMs"} if kind in ("window", "headed_window") else {})
        options = _options(step, _STORE) | _options(step, kept)
        return options | {"type": _STORE_TYPES.get(kind, kind), "caching": step.get("caching", False)}

    def _read(self, given: Step) -> Step:
        options = _options(given, _PLAIN)
        if "extractor" in given:
            options["timestampExtractor"] = self._function("EXTRACTORS", given["extractor"])
        return options

    def _written(self, given: Step, topic: Step) -> Step:
        options = _options(given, _PLAIN) | self._partitioners(given)
        if "extractor" in topic:
            return options | {"topicNameExtractor": self._function("TOPIC_EXTRACTORS", topic["extractor"])}
        return options | {"topic": topic["topic"]}

    def _partitioners(self, given: Step) -> Step:
        return {field: self._function("PARTITIONERS", name) for field, name in _options(given, _PARTITIONERS).items()}

    # ---- the graph ---------------------------------------------------------------------------------------------

    def _source(self, step: Step) -> Step:
        return self._read(step) | _options(step, {"topics": "topics", "pattern": "pattern"})

    def _sink(self, step: Step) -> Step:
        return self._written(step, step) | {"parents": step["parents"]}

    def _filled(self, step: Step) -> Step:
        keep = self._supplier({"processor": "keep", "stores": [step["store"]["name"]]})
        named = _options(step, {"source": "source", "processor": "processor", "topic": "topic"})
        return {"name": step["store"]["name"], **self._store(step["store"]), **named, "supplier": keep}

    # ---- steps -------------------------------------------------------------------------------------------------

    def _step(self, step: Step) -> Step:
        op: str = step["op"]
        name = _ADDS.get(op, op)
        head, *tail = name.split("_")
        options = getattr(self, f"_on_{op}", self._on_any)(step)
        if op in _GIVES_TABLE or (op in _KEEPS_KIND and step["of"] in self._tables):
            self._tables.add(step["id"])
        for side in ("keySerde", "valueSerde"):
            if "(" in options.get(side, ""):
                name = options[side]
                options[side] = self._named(serde(name), re.sub(r"\W", "_", name))
        written: Step = {head + "".join(part.title() for part in tail): options}
        return written | _options(step, {"of": "from", "id": "as"})

    def _on_any(self, step: Step) -> Step:
        """Options that several operations have."""
        options = _options(step, _PLAIN) | _options(step.get("grouped", {}), _PLAIN)
        found = _WITH_FUNCTION.get(step["op"]) or table_and_field(step["op"])
        if found is not None and "fn" in step:
            table, field = found
            options[field] = self._function(table + ("_WITH_KEY" if step.get("args") == 2 else ""), step["fn"])
        kept = step.get("materialized")
        if kept is not None:
            # An option that changes nothing stands for a Materialized without any.
            options |= {"emit": "update"} | _options(kept, _STORE)
            options |= _options(kept, {"name": "store", "retention": "retentionMs", "versioned": "versionedMs"})
        return options

    def _on_store(self, step: Step) -> Step:
        return {"store": step["name"], **self._store(step)}

    def _on_global_store(self, step: Step) -> Step:
        named = {"store": step["store"]["name"], "topic": step["topic"]}
        keep = self._supplier({"processor": "keep", "stores": [step["store"]["name"]]})
        return {**self._store(step["store"]), **self._read(step["consumed"]), **named, "supplier": keep}

    def _on_read_only_store(self, step: Step) -> Step:
        named = {"store": step["store"]["name"], "topic": step["topic"]}
        keep = self._supplier({"processor": "keep", "stores": [step["store"]["name"]]})
        return {**self._store(step["store"]), **named, "supplier": keep}

    def _on_stream(self, step: Step) -> Step:
        return self._read(step.get("consumed", {})) | _options(step, {"topics": "topics", "pattern": "pattern"})

    def _on_table(self, step: Step) -> Step:
        return {"topic": step["topic"], **self._on_any(step), **self._read(step.get("consumed", {}))}

    _on_global_table = _on_table

    def _on_peek(self, step: Step) -> Step:
        return {"action": "code:ignore", **self._on_any(step)}

    _on_foreach = _on_peek

    def _on_merge(self, step: Step) -> Step:
        return {"with": step["with"], **self._on_any(step)}

    def _on_split(self, step: Step) -> Step:
        branches = [
            {"predicate": self._function("PREDICATES", branch["fn"]), **_options(branch, {"name": "name", "id": "as"})}
            for branch in step["branches"]
        ]
        default = {"default": _options(step["default"], {"name": "name", "id": "as"})} if "default" in step else {}
        return {"branches": branches, **default, **self._on_any(step)}

    def _on_repartition(self, step: Step) -> Step:
        return self._on_any(step) | self._partitioners(step)

    def _on_process(self, step: Step) -> Step:
        options = {"supplier": self._supplier(step), **self._on_any(step)}
        return {name: value for name, value in options.items() if name != "stores" or "brings" not in step}

    _on_process_values = _on_process

    def _on_group_by(self, step: Step) -> Step:
        table = "PAIR_MAPPERS" if step["of"] in self._tables else "KEY_SELECTORS"
        return {"selector": self._function(table, step["fn"]), **self._on_any(step)}

    def _on_reduce(self, step: Step) -> Step:
        fields = {"fn": "adder", "subtract": "subtractor"} if "subtract" in step else {"fn": "reducer"}
        found = {field: self._function("REDUCERS", step[name]) for name, field in fields.items()}
        return found | self._on_any(step)

    def _on_aggregate(self, step: Step) -> Step:
        fields = {"fn": "adder", "subtract": "subtractor"} if "subtract" in step else {"fn": "aggregator"}
        found = {field: self._function("AGGREGATORS", step[name]) for name, field in fields.items() if name in step}
        if "merge" in step:
            found["merger"] = self._function("MERGERS", step["merge"])
        return {"initializer": self._function("INITIALIZERS", step["init"]), **found, **self._on_any(step)}

    def _on_windowed_by(self, step: Step) -> Step:
        windows = step["windows"]
        number = windows.get("size", windows.get("gap", windows.get("start", 0)))
        options = {_WINDOWS[windows["kind"]]: number, **_options(windows, {"advance": "advanceMs", "grace": "graceMs"})}
        if "emit" in step:
            options["emitStrategy"] = "onWindowClose" if step["emit"] == "close" else "onWindowUpdate"
        return options

    def _on_transform_values(self, step: Step) -> Step:
        supplier = self._named(transformer(step), f"supplier_{len(vars(self.code))}")
        return {"supplier": supplier, **self._on_any(step)}

    def _on_suppress(self, step: Step) -> Step:
        closes = step["until"] == "window_closes"
        until = {"untilWindowCloses": True} if closes else {"untilTimeLimitMs": step["until"]["time_limit"]}
        bounds = _options(step, {"records": "maxRecords", "bytes": "maxBytes"})
        full = {"emitEarlyWhenFull": True} if bounds and step.get("full") == "emit" else {}
        return {**until, **bounds, **full, **_options(step, {"logging": "logging", "name": "name"})}

    def _on_join(self, step: Step) -> Step:
        tables = {3: "JOINERS_WITH_KEY", 4: "JOINERS_WITH_KEYS"}
        joiner = self._function(tables.get(step.get("args", 2), "JOINERS"), step["fn"])
        options = {
            "with": step["with"],
            "joiner": joiner,
            **_options(step.get("joined", {}), {**_JOINED, "grace": "graceMs"}),
            **_options(step.get("stream_joined", {}), _STREAM_JOINED),
        }
        for side in {"this", "other"} & step.get("stream_joined", {}).keys():
            store = {"name": "store", "engine": "engine"}
            options[f"{side}Store"] = _options(step["stream_joined"][side], store)
        if "windows" in step:
            windows = {"size": "withinMs", "before": "beforeMs", "after": "afterMs", "grace": "graceMs"}
            options |= {"withinMs": 0, **_options(step["windows"], windows)}
        if "extractor" in step:
            table = "KEY_SELECTORS" if step.get("extractor_args") == 2 else "VALUE_MAPPERS"
            options |= {"foreignKeyExtractor": self._function(table, step["extractor"])}
            options |= _options(step, {"table_joined": "name"}) | self._partitioners(step)
        if "selector" in step:
            options["keySelector"] = self._function("KEY_SELECTORS", step["selector"])
        if step["of"] in self._tables:
            self._tables.add(step["id"])
        return (
            self._on_any({"op": step["op"], "materialized": step.get("materialized")})
            | options
            | _options(step, {"name": "name"})
        )

    _on_left_join = _on_outer_join = _on_join

    def _on_cogroup(self, step: Step) -> Step:
        return {"aggregator": self._function("AGGREGATORS", step["fn"]), **_options(step, {"with": "with"})}

    def _on_to(self, step: Step) -> Step:
        return self._written(step.get("produced", {}), step)
