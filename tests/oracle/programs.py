"""Builds a program (see README.md) with streamsapp, as java/DslProgram.java and java/RawProgram.java do in Java.

Called by the tests of this folder, on the test's thread.
"""

from __future__ import annotations

import re
from typing import Any

import functions
from one_function import table_and_field
from options import consumed, grouped, materialized, named, option, produced, serdes, store_builder
from processors import supplier
from streamsapp import Consumed, Repartitioned, StreamsBuilder, Topology
from streamsapp.dsl.options import Branched
from window_steps import WindowSteps

Step = dict[str, Any]


class _Dsl(WindowSteps):
    """A program of the DSL: each step makes one stream, table or grouping, and later steps name it by its id."""

    def __init__(self, builder: StreamsBuilder) -> None:
        self.builder = builder
        self.made: dict[str, Any] = {}

    def step(self, step: Step) -> None:
        result = getattr(self, "on_" + step["op"], self.on_any)(step, self.made.get(step.get("of", "")))
        if "id" in step:
            self.made[step["id"]] = result

    def named_and_materialized(self, step: Step) -> dict[str, Any]:
        return {"named": named(step), "materialized": materialized(step)}

    def on_store(self, step: Step, of: None) -> None:
        self.builder.add_state_store(store_builder(step))

    def on_global_store(self, step: Step, of: None) -> None:
        keep = supplier({"processor": "keep", "stores": [step["store"]["name"]]})
        self.builder.add_global_store(store_builder(step["store"]), step["topic"], consumed(step), keep)

    def on_read_only_store(self, step: Step, of: None) -> None:
        keep = supplier({"processor": "keep", "stores": [step["store"]["name"]]})
        read = Consumed(**serdes(step))
        self.builder.add_read_only_state_store(store_builder(step["store"]), step["topic"], read, keep)

    def on_global_table(self, step: Step, of: None) -> Any:
        return self.builder.global_table(step["topic"], consumed(step), materialized(step))

    def on_stream(self, step: Step, of: None) -> Any:
        topics = re.compile(step["pattern"]) if "pattern" in step else step["topics"]
        return self.builder.stream(topics, consumed(step))

    def on_table(self, step: Step, of: None) -> Any:
        return self.builder.table(step["topic"], consumed(step), materialized(step))

    def on_any(self, step: Step, of: Any) -> Any:
        """An operation whose one argument is a predicate or a key selector."""
        found = table_and_field(step["op"])
        if found is None:
            raise ValueError(f"there is no step {step['op']}")
        options = self.named_and_materialized(step)
        if options["materialized"] is None:
            del options["materialized"]
        return getattr(of, step["op"])(getattr(functions, found[0])[step["fn"]], **options)

    def on_map(self, step: Step, of: Any) -> Any:
        return of.map(functions.PAIR_MAPPERS[step["fn"]], named(step))

    def on_flat_map(self, step: Step, of: Any) -> Any:
        return of.flat_map(functions.FLAT_MAPPERS[step["fn"]], named(step))

    def on_map_values(self, step: Step, of: Any) -> Any:
        table: Any = functions.VALUE_MAPPERS_WITH_KEY if step.get("args") == 2 else functions.VALUE_MAPPERS
        options = self.named_and_materialized(step)
        if options["materialized"] is None:
            del options["materialized"]
        return of.map_values(table[step["fn"]], **options)

    def on_flat_map_values(self, step: Step, of: Any) -> Any:
        with_key = step.get("args") == 2
        table: Any = functions.FLAT_VALUE_MAPPERS_WITH_KEY if with_key else functions.FLAT_VALUE_MAPPERS
        return of.flat_map_values(table[step["fn"]], named(step))

    def on_peek(self, step: Step, of: Any) -> Any:
        return of.peek(lambda k, v: None, named(step))

    def on_foreach(self, step: Step, of: Any) -> Any:
        return of.foreach(lambda k, v: None, named(step))

    def on_merge(self, step: Step, of: Any) -> Any:
        return of.merge(self.made[step["with"]], named(step))

    def on_split(self, step: Step, of: Any) -> None:
        split = of.split(named(step))
        for branch in step["branches"]:
            split.branch(functions.PREDICATES[branch["fn"]], self._branched(branch))
        if "default" in step:
            split.default_branch(self._branched(step["default"]))
        else:
            split.no_default_branch()

    def _branched(self, branch: Step) -> Branched[Any, Any]:
        return Branched(name=branch.get("name"), function=lambda stream: self.made.setdefault(branch["id"], stream))

    def on_repartition(self, step: Step, of: Any) -> Any:
        options = {name: step.get(name) for name in ("name", "partitions")}
        if "partitioner" in step:
            options["partitioner"] = functions.PARTITIONERS[step["partitioner"]]
        return of.repartition(Repartitioned(**serdes(step), **options))

    def on_process(self, step: Step, of: Any) -> Any:
        return of.process(supplier(step), *_connected(step), named=named(step))

    def on_process_values(self, step: Step, of: Any) -> Any:
        return of.process_values(supplier(step), *_connected(step), named=named(step))

    def on_group_by(self, step: Step, of: Any) -> Any:
        pairs: Any = functions.PAIR_MAPPERS if step["fn"] in functions.PAIR_MAPPERS and not hasattr(of, "map") else None
        table: Any = functions.KEY_SELECTORS if pairs is None else pairs
        return of.group_by(table[step["fn"]], grouped(step))

    def on_group_by_key(self, step: Step, of: Any) -> Any:
        return of.group_by_key(grouped(step))

    def on_count(self, step: Step, of: Any) -> Any:
        return of.count(**self.named_and_materialized(step))

    def on_reduce(self, step: Step, of: Any) -> Any:
        reducers = [functions.REDUCERS[step[field]] for field in ("fn", "subtract") if field in step]
        return of.reduce(*reducers, **self.named_and_materialized(step))

    def on_aggregate(self, step: Step, of: Any) -> Any:
        aggregators = [functions.AGGREGATORS[step[field]] for field in ("fn", "subtract") if field in step]
        initializer = functions.INITIALIZERS[step["init"]]
        if "merge" in step:
            aggregators.append(functions.MERGERS[step["merge"]])
        return of.aggregate(initializer, *aggregators, **self.named_and_materialized(step))

    def on_to_table(self, step: Step, of: Any) -> Any:
        return of.to_table(**self.named_and_materialized(step))

    def on_to_stream(self, step: Step, of: Any) -> Any:
        selector = functions.KEY_SELECTORS[step["fn"]] if "fn" in step else None
        return of.to_stream(selector, named(step))

    def on_to(self, step: Step, of: Any) -> None:
        topic: Any = functions.TOPIC_EXTRACTORS[step["extractor"]] if "extractor" in step else step["topic"]
        of.to(topic, produced(step))


def _connected(step: Step) -> list[str]:
    """The stores that a step names, which its supplier does not bring."""
    return [] if "brings" in step else step.get("stores", [])


def _raw_step(topology: Topology, step: Step) -> None:
    """One call of the Topology API."""
    op = step["op"]
    if op == "source":
        extractor = functions.EXTRACTORS[step["extractor"]] if "extractor" in step else None
        topology.add_source(
            step["name"],
            *step.get("topics", []),
            pattern=step.get("pattern"),
            key_deserializer=option(step, "key"),
            value_deserializer=option(step, "value"),
            timestamp_extractor=extractor,
            offset_reset=step.get("reset"),
        )
    elif op == "processor":
        topology.add_processor(step["name"], supplier(step), *step["parents"])
    elif op == "sink":
        topic: Any = functions.TOPIC_EXTRACTORS[step["extractor"]] if "extractor" in step else step["topic"]
        topology.add_sink(
            step["name"],
            topic,
            *step["parents"],
            key_serializer=option(step, "key"),
            value_serializer=option(step, "value"),
        )
    elif op == "store":
        topology.add_state_store(store_builder(step), *step.get("processors", []))
    elif op == "connect":
        topology.connect_processor_and_state_stores(step["processor"], *step["stores"])
    else:
        keep = supplier({"processor": "keep", "stores": [step["store"]["name"]]})
        add = {"global_store": topology.add_global_store, "read_only_store": topology.add_read_only_state_store}[op]
        add(
            store_builder(step["store"]),
            step["source"],
            step["topic"],
            step["processor"],
            keep,
            key_deserializer=option(step, "key"),
            value_deserializer=option(step, "value"),
        )


def build(program: Step) -> Topology:
    """The topology of a program."""
    if program.get("api") == "topology":
        topology = Topology()
        for step in program["steps"]:
            _raw_step(topology, step)
        return topology
    builder = StreamsBuilder()
    dsl = _Dsl(builder)
    for step in program["steps"]:
        dsl.step(step)
    return builder.build(optimize=program.get("optimize", False))
