"""Makes random programs that Kafka Streams accepts, with random records to feed them; the same seed, the same program.

Called by the tests of this folder. A program is JSON: what the oracle is asked, and what ``programs`` builds.
Types are tracked, and serdes are declared where Kafka Streams would not inherit them (and now and then where it would).
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Step = dict[str, Any]
Program = dict[str, Any]

SAME, KEY, TEXT, LONG = "same", "key", "string", "long"

#: name -> type of the result; "same" is the type that goes in.
VALUE_MAPPERS = {
    "identity": SAME,
    "text": TEXT,
    "length": LONG,
    "null_if_odd": SAME,
    "add_one": LONG,
    "exclaim": TEXT,
}
VALUE_MAPPERS_WITH_KEY = {"key_and_value": TEXT, "sum_key_value": LONG, "null_if_key_even": SAME}
PAIR_MAPPERS = {
    "swap_texts": (TEXT, TEXT),
    "key_length": (LONG, SAME),
    "value_as_key": (TEXT, SAME),
    "null_key_if_odd": (SAME, SAME),
    "first_letter": (TEXT, SAME),
    "numbers": (LONG, LONG),
}
KEY_SELECTORS = {
    "text_of_value": TEXT,
    "first_letter": TEXT,
    "value_parity": LONG,
    "same_key": SAME,
    "null_key_if_odd": SAME,
}
FLAT_MAPPERS = {"twice": (SAME, SAME), "nothing": (SAME, SAME), "key_words": (TEXT, SAME)}
PREDICATES = ["all", "none", "value_even", "key_even", "value_present", "key_present", "value_gt_3"]
REDUCERS = {TEXT: ["concat", "latest"], LONG: ["sum", "minus", "latest", "null_if_odd_sum"]}
TABLE_REDUCERS = {TEXT: [("concat", "unconcat"), ("latest", "latest")], LONG: [("sum", "minus"), ("latest", "latest")]}
#: (aggregator, subtractor, initializers, type of the result)
AGGREGATORS = [
    ("count", "uncount", ["zero", "null"], LONG),
    ("sum", "unsum", ["zero", "null"], LONG),
    ("join", "unjoin", ["empty", "null"], TEXT),
    ("null_if_odd", "unsum", ["zero"], LONG),
]
#: Processors that keep the key: type of the value, and the store they need: (kind, type of its value).
VALUE_PROCESSORS: dict[str, tuple[str, tuple[str, str] | None]] = {
    "pass": (SAME, None),
    "late": (SAME, None),
    "headers": (SAME, None),
    "metadata": (TEXT, None),
    "count": (LONG, ("kv", LONG)),
    "latest": (TEXT, ("timestamped", SAME)),
    "store_api": (TEXT, ("kv", SAME)),
}
PROCESSORS: dict[str, tuple[str, tuple[str, str] | None]] = {
    **VALUE_PROCESSORS,
    "twice": (SAME, None),
    "dump_stream_time": (SAME, ("kv", SAME)),
    "dump_wall_clock": (SAME, ("kv", SAME)),
}
KEYS: dict[str, list[Any]] = {TEXT: ["a", "b", "c", "ab", "", "é", None], LONG: [0, 1, 2, 7, -1, None]}
VALUES: dict[str, list[Any]] = {
    TEXT: ["", "a", "bb", "a b", "ccc dd", "x y x", "four", None, "ü b"],
    LONG: [0, 1, 2, 3, 4, 5, 10, -3, None],
}


def resolve(result: str, given: str) -> str:
    return given if result == SAME else result


@dataclass
class Node:
    """Something a later step can build on."""

    kind: str
    id: str
    key: str
    value: str
    key_known: bool = True
    value_known: bool = True


class Generator:
    """What programs of both kinds have in common."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.steps: list[Step] = []
        self.inputs: dict[str, dict[str, str]] = {}
        self.made = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def new(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def kind_of_value(self) -> str:
        return self.random.choice([TEXT, LONG])

    def topic(self, name: str, key: str, value: str) -> str:
        self.inputs[name] = {"key": key, "value": value}
        return name

    def store(self, key: str, value: str, kind: str) -> Step:
        step: Step = {"op": "store", "name": self.new("store-"), "key": key, "value": value, "kind": kind}
        if self.chance(0.5):
            step["engine"] = "memory"
        if self.chance(0.2):
            step["logging"] = False
        return step

    def processor(self, step: Step, table: dict[str, Any], key: str, value: str) -> tuple[str, Step | None]:
        """Completes a step that runs a processor: the type of its values, and the store it needs."""
        step["processor"] = self.random.choice(sorted(table))
        result, needed = table[step["processor"]]
        if step["processor"].startswith("dump"):
            step["interval"] = self.random.choice([5, 20, 50])
        store = None
        if needed is not None:
            store = self.store(key, resolve(needed[1], value), needed[0])
            step["stores"] = [store["name"]]
        return resolve(result, value), store

    def events(self, count: int) -> list[Step]:
        """Records with ties, late ones, null keys and values, headers; and wall-clock advances."""
        time = self.random.choice([0, 100, 1000])
        events: list[Step] = []
        for _ in range(count):
            if self.chance(0.1):
                events.append({"advance": self.random.choice([1, 10, 35, 200])})
                continue
            time += self.random.choice([0, 0, 1, 3, 10, 40])
            topic = self.random.choice(sorted(self.inputs))
            event: Step = {"topic": topic, "ts": max(0, time - self.random.choice([0, 0, 0, 5, 30]))}
            event["key"] = self.random.choice(KEYS[self.inputs[topic]["key"]])
            event["value"] = self.random.choice(VALUES[self.inputs[topic]["value"]])
            if self.chance(0.2):
                content = self.random.choice([None, "", "x"])
                encoded = None if content is None else base64.b64encode(content.encode()).decode()
                event["headers"] = [[self.random.choice("hij"), encoded] for _ in range(self.random.randint(1, 2))]
            events.append(event)
        return events

    def program(self, api: str, events: int) -> Program:
        return {
            "api": api,
            "optimize": self.chance(0.4),
            "steps": self.steps,
            "inputs": self.inputs,
            "events": self.events(events),
        }


class DslGenerator(Generator):
    """Programs of the DSL."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.nodes: list[Node] = []
        self.table_stores: list[Node] = []
        #: Topics that were read together, with the types of their keys and values; they may be read again.
        self.stream_topics: list[tuple[list[str], str, str]] = []

    def generate(self, size: int, events: int) -> Program:
        if events == 0 and self.chance(0.05):
            self.global_store()
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
        store = {"name": self.new("global-"), "key": TEXT, "value": TEXT, "engine": "memory", "logging": False}
        topic = self.topic(self.new("global-in-"), TEXT, TEXT)
        self.steps.append(
            {"op": "global_store", "store": store, "topic": topic, "consumed": {"key": TEXT, "value": TEXT}}
        )

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
        op = self.random.choice(["filter", "filter_not"])
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
        self.add(made, self.named({"op": "select_key", "id": made.id, "of": node.id, "fn": fn}))

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
        if store is not None:
            self.steps.append(store)
        self.add(made, self.named(step))

    def process_values(self, node: Node) -> None:
        made = Node("stream", self.new("p"), node.key, node.value, node.key_known, False)
        step: Step = {"op": "process_values", "id": made.id, "of": node.id}
        made.value, store = self.processor(step, VALUE_PROCESSORS, node.key, node.value)
        if store is not None:
            self.steps.append(store)
        self.add(made, self.named(step))

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
            step["topic"] = self.new("out-") if self.chance(0.8) else "out"
        self.steps.append(step)


class RawGenerator(Generator):
    """Programs of the Topology API."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.nodes: list[Node] = []
        self.stores: list[Step] = []

    def generate(self, size: int, events: int) -> Program:
        if events == 0 and self.chance(0.15):
            self.global_store()
        for _ in range(self.random.randint(1, 3)):
            self.source()
        while len(self.steps) < size:
            self.random.choice([self.processor_node, self.processor_node, self.sink, self.source])()
        self.sink()
        return self.program("topology", events)

    def name(self, prefix: str) -> str:
        """Names of varied lengths and letters, since Kafka Streams' order depends on their hashes."""
        letters = "".join(self.random.choice("abcXYZ019-_.") for _ in range(self.random.randint(0, 6)))
        return self.new(f"{prefix}{letters}")

    def global_store(self) -> None:
        store = {"name": self.new("global-"), "key": TEXT, "value": TEXT, "engine": "memory", "logging": False}
        topic = self.topic(self.new("global-in-"), TEXT, TEXT)
        self.steps.append(
            {
                "op": "global_store",
                "store": store,
                "source": self.name("source"),
                "topic": topic,
                "key": TEXT,
                "value": TEXT,
                "processor": self.name("keep"),
            }
        )

    def source(self) -> None:
        node = Node("stream", self.name("source"), self.kind_of_value(), self.kind_of_value())
        step: Step = {"op": "source", "name": node.id, "key": node.key, "value": node.value}
        if self.chance(0.15):
            prefix = self.new("pattern-")
            step["pattern"] = f"{prefix}-[ab]"
            self.topic(f"{prefix}-a", node.key, node.value)
        else:
            count = self.random.choice([1, 1, 2, 3])
            step["topics"] = [self.topic(self.name("in-"), node.key, node.value) for _ in range(count)]
        if self.chance(0.1):
            step["extractor"] = self.random.choice(["value_times_ten", "negative_if_odd", "partition_time"])
        self.nodes.append(node)
        self.steps.append(step)

    def parents(self) -> tuple[Node, list[str]]:
        first = self.random.choice(self.nodes)
        alike = [node.id for node in self.nodes if (node.key, node.value) == (first.key, first.value)]
        count = self.random.choice([1, 1, 1, 2, 3])
        return first, sorted(self.random.sample(alike, min(count, len(alike))), reverse=self.chance(0.5))

    def processor_node(self) -> None:
        parent, parents = self.parents()
        step: Step = {"op": "processor", "name": self.name("node"), "parents": parents}
        value, store = self.processor(step, PROCESSORS, parent.key, parent.value)
        self.steps.append(step)
        self.nodes.append(Node("stream", step["name"], parent.key, value))
        if store is None:
            return
        shared = [
            other
            for other in self.stores
            if all(other[field] == store[field] for field in ("key", "value", "kind")) and self.chance(0.5)
        ]
        if shared:
            step["stores"] = [shared[0]["name"]]
            self.steps.append({"op": "connect", "processor": step["name"], "stores": step["stores"]})
        else:
            store["name"] = self.name("store")
            step["stores"] = [store["name"]]
            self.stores.append(store)
            self.steps.append({**store, "processors": [step["name"]]})

    def sink(self) -> None:
        parent, parents = self.parents()
        step: Step = {"op": "sink", "name": self.name("sink"), "parents": parents}
        step |= {"key": parent.key, "value": parent.value}
        if self.chance(0.15):
            step["extractor"] = self.random.choice(["by_value_parity", "by_source_topic"])
        else:
            step["topic"] = self.new("out-")
        self.steps.append(step)


def dsl_program(seed: int, size: int = 12, events: int = 30) -> Program:
    """A random program of the DSL."""
    return DslGenerator(seed).generate(size, events)


def raw_program(seed: int, size: int = 10, events: int = 30) -> Program:
    """A random program of the Topology API."""
    return RawGenerator(seed).generate(size, events)
