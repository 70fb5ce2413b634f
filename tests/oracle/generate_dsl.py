"""Makes random programs of the DSL that Kafka Streams accepts; the same seed, the same program.

Called by the tests of this folder. Types are tracked, and serdes are declared where Kafka Streams would not inherit
them (and now and then where it would).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from one_function import operations
from streamsapp.declared.roles import KEY_SELECTOR, PREDICATE
from vocabulary import (
    AGGREGATORS,
    FLAT_MAPPERS,
    KEY_SELECTORS,
    LONG,
    PAIR_MAPPERS,
    PREDICATES,
    PROCESSORS,
    REDUCERS,
    SAME,
    TABLE_REDUCERS,
    TEXT,
    VALUE_MAPPERS,
    VALUE_MAPPERS_WITH_KEY,
    VALUE_PROCESSORS,
    Generator,
    Node,
    Program,
    Step,
    resolve,
)


class DslGenerator(Generator):
    """Programs of the DSL."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.nodes: list[Node] = []
        self.table_stores: list[Node] = []
        #: Named after their stores.
        self.globals: list[Node] = []
        #: Topics that were read together, with the types of their keys and values; they may be read again.
        self.stream_topics: list[tuple[list[str], str, str]] = []

    def generate(self, size: int, events: int) -> Program:
        for add in (self.global_store, self.global_table):
            if self.chance(0.1):
                add()
        for _ in range(self.random.randint(1, 3)):
            self.source()
        while len(self.steps) < size:
            self.extend(self.random.choice(self.nodes))
        self.finish()
        return self.program("dsl", events)

    def finish(self) -> None:
        """Grouped nodes are no results, and every table's or stream's last words should be seen."""
        used = {step[field] for step in self.steps for field in ("of", "with") if field in step}
        for node in list(self.nodes):
            if node.id in used:
                continue
            last = self.aggregated(node) if node.kind.startswith("grouped") else node
            if last.kind == "table" and self.chance(0.7):
                last = self.to_stream(last)
            if last.kind == "stream":
                self.to(last)

    def add(self, node: Node, step: Step) -> Node:
        self.steps.append(step)
        self.nodes.append(node)
        return node

    def named(self, step: Step, probability: float = 0.2) -> Step:
        if self.chance(probability):
            step["name"] = self.new("named-")
        return step

    def serdes(self, options: Step, node: Node) -> Step:
        """Declares what is not inherited, and sometimes what is."""
        if not node.key_known or self.chance(0.2):
            options["key"] = node.key
        if not node.value_known or self.chance(0.2):
            options["value"] = node.value
        return options

    def materialized(self, step: Step, node: Node, named: float = 0.4, inherits: bool = False) -> Step:
        """Says how a table is kept. Its store inherits serdes from a grouping, but not from another table."""
        options: Step = {"name": self.new("table-store-")} if self.chance(named) else {}
        if inherits:
            self.serdes(options, node)
        else:
            options |= {"key": node.key, "value": node.value}
        if self.chance(0.4):
            options["engine"] = self.random.choice(["memory", "rocksdb"])
        if self.chance(0.15):
            options["logging"] = False
        if self.chance(0.2):
            options["caching"] = False
        step["materialized"] = options
        return step

    # ---- sources -----------------------------------------------------------------------------------------------

    def consumed(self, key: str, value: str) -> Step:
        options: Step = {"key": key, "value": value}
        self.named(options, 0.15)
        if self.chance(0.1):
            options["extractor"] = self.random.choice(["value_times_ten", "negative_if_odd", "partition_time"])
        return options

    def global_store(self) -> None:
        store: Step = {"name": self.new("global-"), "key": TEXT, "value": TEXT, "engine": "memory", "logging": False}
        topic = self.topic(self.new("global-in-"), TEXT, TEXT)
        self.steps.append({"op": "global_store", "store": store, "topic": topic, "consumed": self.consumed(TEXT, TEXT)})
        self.globals.append(Node("global", store["name"], TEXT, TEXT))

    def global_table(self) -> None:
        key, value = self.kind_of_value(), self.kind_of_value()
        topic = self.topic(self.new("global-in-"), key, value)
        step: Step = {"op": "global_table", "topic": topic, "consumed": self.consumed(key, value)}
        self.steps.append(step)
        if self.chance(0.7):
            # Kafka Streams refuses a Materialized without a name here.
            self.materialized(step, Node("global", "", key, value), named=1)
            self.globals.append(Node("global", step["materialized"]["name"], key, value))

    def source(self) -> None:
        key, value = self.kind_of_value(), self.kind_of_value()
        node = Node("stream", self.new("s"), key, value)
        step: Step = {"op": "stream", "id": node.id, "consumed": self.consumed(key, value)}
        if self.chance(0.35):
            node.kind = step["op"] = "table"
            step["topic"] = self.topic(self.new("in-"), key, value)
            if self.chance(0.6):
                self.materialized(step, node)
        elif self.chance(0.1):
            prefix = self.new("pattern-")
            step["pattern"] = f"{prefix}-[ab]"
            # Kafka Streams' test driver counts the offsets of a pattern's topics as if they were one topic.
            self.topic(f"{prefix}-a", key, value)
        elif self.stream_topics and self.chance(0.2):
            step["topics"], key, value = self.random.choice(self.stream_topics)
            step["consumed"] = {"key": key, "value": value}
            node.key, node.value = key, value
        else:
            topics = self.random.choice([1, 1, 1, 2])
            step["topics"] = [self.topic(self.new("in-"), key, value) for _ in range(topics)]
            self.stream_topics.append((step["topics"], key, value))
        self.add(node, step)

    # ---- steps on what is there --------------------------------------------------------------------------------

    def extend(self, node: Node) -> None:
        choices: dict[str, list[Callable[[Node], object]]] = {
            "stream": [
                self.filter,
                self.map,
                self.map_values,
                self.flat_map,
                self.flat_map_values,
                self.select_key,
                self.peek,
                self.merge,
                self.split,
                self.repartition,
                self.process,
                self.process_values,
                self.group_by,
                self.group_by,
                self.group_by_key,
                self.group_by_key,
                self.to_table,
                self.to,
            ],
            "table": [self.filter, self.map_values, self.to_stream, self.group_table],
            "grouped": [self.aggregated],
            "grouped_table": [self.aggregated],
        }
        self.random.choice(choices[node.kind])(node)

    def filter(self, node: Node) -> None:
        op = self.random.choice(operations(node.kind, PREDICATE))
        made = Node(node.kind, self.new("f"), node.key, node.value, node.key_known, node.value_known)
        step = {"op": op, "id": made.id, "of": node.id, "fn": self.random.choice(PREDICATES)}
        if node.kind == "table":
            self.materialized_map(step, made)
        self.add(made, self.named(step))

    def materialized_map(self, step: Step, made: Node) -> None:
        """A table made of another one is materialised only if asked; without a store it needs no serde."""
        if self.chance(0.5):
            return
        self.materialized(step, made, named=0.7)
        made.key_known = made.value_known = True

    def map(self, node: Node) -> None:
        fn = self.random.choice(sorted(PAIR_MAPPERS))
        key, value = PAIR_MAPPERS[fn]
        made = Node("stream", self.new("m"), resolve(key, node.key), resolve(value, node.value), False, False)
        self.add(made, self.named({"op": "map", "id": made.id, "of": node.id, "fn": fn}))

    def map_values(self, node: Node) -> None:
        args = self.random.choice([1, 2])
        mappers = VALUE_MAPPERS if args == 1 else VALUE_MAPPERS_WITH_KEY
        fn = self.random.choice(sorted(mappers))
        made = Node(node.kind, self.new("v"), node.key, resolve(mappers[fn], node.value), node.key_known, False)
        step = {"op": "map_values", "id": made.id, "of": node.id, "fn": fn, "args": args}
        if node.kind == "table":
            self.materialized_map(step, made)
        self.add(made, self.named(step))

    def flat_map(self, node: Node) -> None:
        fn = self.random.choice(sorted(FLAT_MAPPERS))
        key, value = FLAT_MAPPERS[fn]
        made = Node("stream", self.new("m"), resolve(key, node.key), resolve(value, node.value), False, False)
        self.add(made, self.named({"op": "flat_map", "id": made.id, "of": node.id, "fn": fn}))

    def flat_map_values(self, node: Node) -> None:
        fn, result, args = self.random.choice([("words", TEXT, 1), ("repeat", SAME, 1), ("key_then_value", TEXT, 2)])
        made = Node("stream", self.new("v"), node.key, resolve(result, node.value), node.key_known, False)
        self.add(made, self.named({"op": "flat_map_values", "id": made.id, "of": node.id, "fn": fn, "args": args}))

    def select_key(self, node: Node) -> None:
        fn = self.random.choice(sorted(KEY_SELECTORS))
        made = Node("stream", self.new("k"), resolve(KEY_SELECTORS[fn], node.key), node.value, False, node.value_known)
        first, *others = operations("stream", KEY_SELECTOR)
        op = self.random.choice([first, *others]) if others else first
        self.add(made, self.named({"op": op, "id": made.id, "of": node.id, "fn": fn}))

    def peek(self, node: Node) -> None:
        if self.chance(0.3):
            self.steps.append(self.named({"op": "foreach", "of": node.id}))
            return
        made = Node("stream", self.new("p"), node.key, node.value, node.key_known, node.value_known)
        self.add(made, self.named({"op": "peek", "id": made.id, "of": node.id}))

    def merge(self, node: Node) -> None:
        others = [
            other
            for other in self.nodes
            if other.kind == "stream" and (other.key, other.value) == (node.key, node.value)
        ]
        made = Node("stream", self.new("u"), node.key, node.value, False, False)
        self.add(made, self.named({"op": "merge", "id": made.id, "of": node.id, "with": self.random.choice(others).id}))

    def split(self, node: Node) -> None:
        def branch() -> Step:
            made = Node("stream", self.new("b"), node.key, node.value, node.key_known, node.value_known)
            self.nodes.append(made)
            options = {"id": made.id, "fn": self.random.choice(PREDICATES)}
            return self.named(options, 0.4)

        branches = [branch() for _ in range(self.random.randint(1, 3))]
        step: Step = self.named({"op": "split", "of": node.id, "branches": branches}, 0.4)
        if self.chance(0.5):
            step["default"] = branch()
        self.steps.append(step)

    def repartition(self, node: Node) -> None:
        made = Node("stream", self.new("r"), node.key, node.value)
        step: Step = self.serdes({"op": "repartition", "id": made.id, "of": node.id}, node)
        # Unlike the value's, the key's serde is not inherited by the topic.
        step["key"] = node.key
        if self.chance(0.3):
            step["partitions"] = self.random.randint(1, 4)
        self.add(made, self.named(step, 0.4))

    def process(self, node: Node) -> None:
        made = Node("stream", self.new("p"), node.key, node.value, False, False)
        step: Step = {"op": "process", "id": made.id, "of": node.id}
        made.value, store = self.processor(step, PROCESSORS, node.key, node.value)
        readable = [table for table in self.table_stores if table.key == node.key]
        if readable and self.chance(0.4):
            made.value, store = TEXT, None
            step = {"op": "process", "id": made.id, "of": node.id, "processor": "read"}
            step["stores"] = [self.random.choice(readable).id]
        readable = [table for table in self.globals if table.key == node.key]
        if readable and self.chance(0.4):
            made.value, store = TEXT, None
            step = {"op": "process", "id": made.id, "of": node.id, "processor": "read"}
            step["global"] = self.random.choice(readable).id
        self.add(made, self.named(self.connected(step, store)))

    def connected(self, step: Step, store: Step | None) -> Step:
        """Gives a step the store that it needs: one of its own, or another step's."""
        if store is None:
            return step
        types = {name: store[name] for name in ("op", "key", "value", "kind")}
        alike = [each for each in self.steps if types.items() <= each.items()]
        if alike and self.chance(0.4):
            return {**step, "stores": [self.random.choice(alike)["name"]]}
        self.steps.append(store)
        return step

    def process_values(self, node: Node) -> None:
        made = Node("stream", self.new("p"), node.key, node.value, node.key_known, False)
        step: Step = {"op": "process_values", "id": made.id, "of": node.id}
        made.value, store = self.processor(step, VALUE_PROCESSORS, node.key, node.value)
        self.add(made, self.named(self.connected(step, store)))

    # ---- groups and tables -------------------------------------------------------------------------------------

    def grouped(self, step: Step, made: Node) -> Node:
        """Kafka Streams inherits serdes only where no Grouped is given at all."""
        if made.key_known and made.value_known and self.chance(0.6):
            return self.add(made, step)
        made.key_known = made.value_known = True
        step["grouped"] = self.named({"key": made.key, "value": made.value}, 0.3)
        return self.add(made, step)

    def group_by(self, node: Node) -> None:
        fn = self.random.choice(sorted(KEY_SELECTORS))
        made = Node("grouped", self.new("g"), resolve(KEY_SELECTORS[fn], node.key), node.value, False, node.value_known)
        self.grouped({"op": "group_by", "id": made.id, "of": node.id, "fn": fn}, made)

    def group_by_key(self, node: Node) -> None:
        made = Node("grouped", self.new("g"), node.key, node.value, node.key_known, node.value_known)
        self.grouped({"op": "group_by_key", "id": made.id, "of": node.id}, made)

    def group_table(self, node: Node) -> None:
        fn = self.random.choice(sorted(PAIR_MAPPERS))
        key, value = PAIR_MAPPERS[fn]
        made = Node("grouped_table", self.new("g"), resolve(key, node.key), resolve(value, node.value), False, False)
        self.grouped({"op": "group_by", "id": made.id, "of": node.id, "fn": fn}, made)

    def aggregated(self, node: Node) -> Node:
        of_table = node.kind == "grouped_table"
        op = self.random.choice(["count", "reduce", "aggregate"])
        made = Node("table", self.new("t"), node.key, node.value, node.key_known, node.value_known)
        step: Step = {"op": op, "id": made.id, "of": node.id}
        if op == "count":
            made.value = LONG
        elif op == "reduce" and of_table:
            step["fn"], step["subtract"] = self.random.choice(TABLE_REDUCERS[node.value])
        elif op == "reduce":
            step["fn"] = self.random.choice(REDUCERS[node.value])
        else:
            add, subtract, initializers, made.value = self.random.choice(AGGREGATORS)
            step |= {"fn": add, "init": self.random.choice(initializers)}
            if of_table:
                step["subtract"] = subtract
            made.value_known = False
        if not (made.key_known and made.value_known) or self.chance(0.6):
            self.materialized(step, made, inherits=True)
        if "materialized" in step or op == "count":
            self.named(step)
        made.key_known = made.value_known = True
        self.remember_store(step, made)
        return self.add(made, step)

    def remember_store(self, step: Step, made: Node) -> None:
        name = step.get("materialized", {}).get("name")
        if name is not None:
            self.table_stores.append(Node("store", name, made.key, made.value))

    def to_table(self, node: Node) -> None:
        made = Node("table", self.new("t"), node.key, node.value, node.key_known, node.value_known)
        step: Step = {"op": "to_table", "id": made.id, "of": node.id}
        if not (made.key_known and made.value_known) or self.chance(0.6):
            self.materialized(step, made)
        made.key_known = made.value_known = True
        self.remember_store(step, made)
        self.add(made, self.named(step))

    def to_stream(self, node: Node) -> Node:
        made = Node("stream", self.new("s"), node.key, node.value, node.key_known, node.value_known)
        step: Step = {"op": "to_stream", "id": made.id, "of": node.id}
        if self.chance(0.2):
            step["fn"] = self.random.choice(sorted(KEY_SELECTORS))
            made.key, made.key_known = resolve(KEY_SELECTORS[step["fn"]], node.key), False
        return self.add(made, self.named(step))

    def to(self, node: Node) -> None:
        step: Step = {"op": "to", "of": node.id, "produced": self.serdes({}, node)}
        self.named(step["produced"], 0.2)
        if self.chance(0.15):
            step["extractor"] = self.random.choice(["by_value_parity", "by_source_topic"])
        else:
            # A topic that several sinks write has records of one form.
            step["topic"] = self.new("out-") if self.chance(0.8) else _letters(f"out-{node.key}-{node.value}")
        self.steps.append(step)


def _letters(name: str) -> str:
    """A name of a topic."""
    return re.sub(r"[^a-z_-]+", "-", name)


def dsl_program(seed: int, size: int = 12, events: int = 30) -> Program:
    """A random program of the DSL."""
    return DslGenerator(seed).generate(size, events)
