"""Makes random programs of the whole language at once; the same seed, the same program.

Called by the tests of this folder. Each other generator has one part of the language and its corners; here the parts
build on each other: windowed tables are joined, grouped and suppressed, what was joined is windowed and joined again.
Left out is what Kafka Streams gets wrong (docs/departures.md).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from generate_dsl import DslGenerator
from vocabulary import AGGREGATORS, KEYS, LONG, MERGERS, REDUCERS, TEXT, Node, Program, Step

#: Longer than any program goes on: with less, Kafka Streams loses what it should send on close.
_KEPT = 100_000
#: The windows of cogroups.
_COGROUPED: list[Step | None] = [
    None,
    {"kind": "time", "size": 20},
    {"kind": "time", "size": 20, "advance": 7, "grace": 15},
    {"kind": "sliding", "size": 20, "grace": 9},
    {"kind": "session", "gap": 5, "grace": 9},
    {"kind": "unlimited", "start": 20},
]
#: (joiner, type of the result where the sides have one type)
_JOINERS = [("both", TEXT), ("total", LONG), ("left", "same"), ("right", "same"), ("null_if_odd_total", LONG)]


class LanguageGenerator(DslGenerator):
    """Programs with steps of every kind."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.optimizes = self.chance(0.3)
        self.by_foreign_key = False
        self.joined_streams = 0
        #: Tables whose windows close.
        self.closing: set[str] = set()
        #: Tables that know the earlier values of their rows, with how long.
        self.versioned: dict[str, int] = {}

    def generate(self, size: int, events: int) -> Program:
        program = super().generate(size, events)
        program["optimize"] = self.optimizes and "survives" not in program
        if self.by_foreign_key:
            for event in program["events"]:
                event.pop("headers", None)
        return program

    def add(self, node: Node, step: Step) -> Node:
        """Kafka Streams fails for a record without a key where keys have windows (docs/departures.md)."""
        if "windowed" in node.key and step.get("fn") == "null_key_if_odd" and node.kind == "stream":
            step |= {"op": {"map": "select_key"}.get(step["op"], step["op"]), "fn": "same_key"}
        above = {step.get("of"), step.get("with", step.get("of"))}
        if node.kind == "table" and above <= self.closing and "extractor" not in step:
            self.closing.add(node.id)
        return super().add(node, step)

    def extend(self, node: Node) -> None:
        more = {
            "stream": [
                self.join_streams,
                self.join_streams,
                self.join_table,
                self.join_table,
                self.join_global_table,
                self.keep,
                self.schedule,
            ],
            "table": [self.join_tables, self.join_tables, self.join_by_foreign_key, self.suppress, self.transform],
            "grouped": [self.windowed, self.windowed, self.sessions, self.unlimited, self.cogrouped],
        }.get(node.kind, [])
        if more and self.chance(0.5):
            self.random.choice(more)(node)
        else:
            super().extend(node)

    def repartition(self, node: Node) -> None:
        super().repartition(node)
        self.steps[-1].pop("partitions", None)  # streams that are joined need as many partitions

    # ---- joins -------------------------------------------------------------------------------------------------

    def like(self, node: Node, kind: str) -> Node | None:
        """A node with keys of the same type."""
        found = [each for each in self.nodes if each.kind == kind and each.key == node.key]
        return self.random.choice(found) if found else None

    def present(self, node: Node, of: str) -> Node:
        """The stream without the records that have no key, or no value."""
        made = Node("stream", self.new("f"), node.key, node.value, node.key_known, node.value_known)
        return self.add(made, {"op": "filter", "id": made.id, "of": node.id, "fn": f"{of}_present"})

    def joiner(self, step: Step, left: Node, right: Node) -> str:
        if self.chance(0.2) and "extractor" not in step and right.kind != "table":
            step |= {"args": 3, "fn": "all"}
            return TEXT
        fn, result = self.random.choice(_JOINERS)
        step["fn"] = fn
        return {"left": left.value, "right": right.value}.get(fn, result)

    def join_streams(self, node: Node) -> None:
        self.joined_streams += 1
        if self.joined_streams > 2:
            return  # each may give the square of what comes in
        right = self.like(node, "stream") or node
        if self.chance(0.2):
            right = node
        left, in_memory = node, self.chance(0.3)
        for needed, of in ((in_memory, "value"), (self.optimizes, "key")):
            if needed:
                itself = left is right
                left = self.present(left, of)
                right = left if itself else self.present(right, of)
        made = Node("stream", self.new("j"), node.key, TEXT, False, False)
        kind = self.random.choice(["join", "left_join", "outer_join"])
        step: Step = {"op": kind, "id": made.id, "of": left.id, "with": right.id}
        made.value = self.joiner(step, left, right)
        size = self.random.choice([1, 5, 20, 100])
        step["windows"] = {"size": size, "grace": self.random.choice([0, 0, 5, 50])}
        if self.chance(0.2):
            step["windows"][self.random.choice(["before", "after"])] = max(1, size // 2)
        step["stream_joined"] = {"key": node.key, "value": left.value, "other_value": right.value}
        if self.chance(0.3):
            step["stream_joined"]["name"] = self.new("join-")
        if in_memory:
            step["stream_joined"]["engine"] = "memory"
        if self.chance(0.2):
            step["stream_joined"]["store_name"] = self.new("join-store-")
        if self.chance(0.2):
            step["stream_joined"]["logging"] = False
        self.add(made, step)

    def join_table(self, node: Node) -> None:
        table = self.like(node, "table")
        if table is None:
            return
        kind, options = self.random.choice(["join", "left_join"]), self.named({})
        if table.id in self.versioned and self.chance(0.6):
            options["grace"] = self.random.choice([0, 5, 20, self.versioned[table.id]])
            if kind == "left_join":
                node = self.present(node, "key")  # Kafka Streams fails for one without that is to wait
        made = Node("stream", self.new("j"), node.key, TEXT, False, False)
        step: Step = {"op": kind, "id": made.id, "of": node.id, "with": table.id}
        made.value = self.joiner(step, node, table)
        step["joined"] = options | {"key": node.key, "value": node.value, "other_value": table.value}
        self.add(made, step)

    def join_global_table(self, node: Node) -> None:
        tables = [step for step in self.steps if step["op"] == "global_table" and "id" in step]
        if not tables:
            return
        table = self.random.choice(tables)
        types = table["consumed"]
        made = Node("stream", self.new("j"), node.key, TEXT, node.key_known, False)
        step: Step = {"op": self.random.choice(["join", "left_join"]), "id": made.id, "of": node.id}
        step |= {"with": table["id"], "selector": {TEXT: "text_of_value", LONG: "value_parity"}[types["key"]]}
        if self.chance(0.3):
            step |= {"args": 4, "fn": "every"}
            made.value = TEXT
        else:
            made.value = self.joiner(step, node, Node("global", table["id"], types["key"], types["value"]))
        self.add(made, self.named(step))

    def global_table(self) -> None:
        super().global_table()
        self.steps[-1]["id"] = self.new("global-table-")

    def source(self) -> None:
        """Some tables know the earlier values of their rows, for longer than any record is late, or any program goes
        on: an update that is older is in Kafka Streams' changelog all the same (docs/departures.md)."""
        super().source()
        step, node = self.steps[-1], self.nodes[-1]
        if step["op"] == "table" and self.chance(0.4):
            history = self.random.choice([500, _KEPT])
            types = {"key": node.key, "value": node.value}
            step["materialized"] = {**types, "name": self.new("versions-"), "versioned": history}
            self.versioned[node.id] = history

    def join_tables(self, node: Node) -> None:
        right = self.like(node, "table") or node
        made = Node("table", self.new("j"), node.key, TEXT, node.key_known, False)
        kind = self.random.choice(["join", "left_join", "outer_join"])
        step: Step = {"op": kind, "id": made.id, "of": node.id, "with": right.id}
        made.value = self.joiner(step, node, right)
        self.materialized_map(step, made)
        self.add(made, self.named(step))

    def join_by_foreign_key(self, node: Node) -> None:
        right = self.random.choice([each for each in self.nodes if each.kind == "table"])
        extractors = {TEXT: "first_letter", LONG: "value_parity", node.key: "same_key"}
        known = all(each.key_known and each.value_known for each in (node, right))
        if right.key not in extractors or "windowed" in right.key or not known:
            return  # such a join writes records without a key
        self.by_foreign_key = True
        made = Node("table", self.new("j"), node.key, TEXT)
        step: Step = {"op": self.random.choice(["join", "left_join"]), "id": made.id, "of": node.id, "with": right.id}
        of_value = {TEXT: "text", LONG: "length"}
        if right.key in of_value and self.chance(0.3):
            step["extractor"] = of_value[right.key]
        else:
            step |= {"extractor": extractors[right.key], "extractor_args": 2}
        made.value = self.joiner(step, node, right)
        if self.chance(0.3):
            step["table_joined"] = self.new("foreign-")
        self.add(made, self.materialized(step, made, named=0.6))

    # ---- processors --------------------------------------------------------------------------------------------

    def keep(self, node: Node) -> None:
        """Keeps the stream in a store of windows or sessions, and reads it in every way."""
        if node.key not in KEYS:
            return
        kinds = ["window", "session", "headed_window", "headed_session"]
        store = self.store(node.key, node.value, self.random.choice(kinds))
        # A record that comes too late is in Kafka Streams' changelog all the same (docs/departures.md).
        store |= {"size": 10, "retention": self.random.choice([50, 500, _KEPT]), "logging": False}
        made = Node("stream", self.new("p"), node.key, TEXT, node.key_known, False)
        step: Step = {"op": "process_values", "id": made.id, "of": node.id, "stores": [store["name"]]}
        step["processor"] = store["kind"] + "_api"
        self.steps.append(store)
        self.add(made, self.named(step))

    def schedule(self, node: Node) -> None:
        """Is called by time, and forwards records that were not in the input."""
        if (node.key, node.value) != (TEXT, TEXT):
            return
        made = Node("stream", self.new("p"), TEXT, TEXT, False, False)
        ways = ["tick_stream_time", "tick_wall_clock", "scheduling"]
        step: Step = {"op": "process", "id": made.id, "of": node.id, "processor": self.random.choice(ways)}
        self.add(made, self.named(self.scheduled(step)))

    # ---- tables ------------------------------------------------------------------------------------------------

    def suppress(self, node: Node) -> None:
        made = Node("table", self.new("u"), node.key, node.value, node.key_known, node.value_known)
        step: Step = {"op": "suppress", "id": made.id, "of": node.id}
        closes = node.id in self.closing and self.chance(0.6)
        if self.versioned and not closes:
            return  # perhaps of versions, which are not suppressed
        step["until"] = "window_closes" if closes else {"time_limit": self.random.choice([0, 5, 20, 200])}
        if not closes and self.chance(0.4):
            step |= {self.random.choice(["records", "bytes"]): self.random.choice([1, 3, 100]), "full": "emit"}
        if not node.value_known:
            step = {"op": "filter", "id": made.id, "of": node.id, "fn": "all"}  # it could not write its buffer
        self.add(made, self.named(step))

    def transform(self, node: Node) -> None:
        made = Node("table", self.new("v"), node.key, TEXT, node.key_known, False)
        step: Step = {"op": "transform_values", "id": made.id, "of": node.id, "fn": "key_and_value"}
        self.materialized_map(step, made)
        self.add(made, self.named(step))

    # ---- windows -----------------------------------------------------------------------------------------------

    def windowed(self, node: Node) -> None:
        size = self.random.choice([1, 5, 20, 60])
        windows: Step = {"kind": self.random.choice(["time", "time", "sliding"]), "size": size}
        if windows["kind"] == "time" and self.chance(0.4):
            windows["advance"] = self.random.randint(max(1, size // 3), size)
        self.of_windows(node, windows, f"time_windowed({node.key},{size})")

    def sessions(self, node: Node) -> None:
        gap = self.random.choice([1, 5, 20, 60])
        self.of_windows(node, {"kind": "session", "gap": gap}, f"session_windowed({node.key})")

    def unlimited(self, node: Node) -> None:
        """One window without end: it never closes, and is kept for good."""
        windows: Step = {"kind": "unlimited", "start": self.random.choice([0, 20, 1000])}
        grouped, made = self.new("g"), Node("table", self.new("t"), f"time_windowed({node.key},10)", LONG)
        self.steps.append({"op": "windowed_by", "id": grouped, "of": node.id, "windows": windows})
        step: Step = {"op": "count", "id": made.id, "of": grouped}
        if self.chance(0.5):
            step["op"] = "aggregate"
            made.value = self.fold(step, windows)
        self.add(made, self.named({**step, "materialized": {"key": node.key, "value": made.value}}))
        self.closing.add(made.id)

    def of_windows(self, node: Node, windows: Step, key: str) -> None:
        if self.chance(0.6):
            windows["grace"] = self.random.choice([0, 3, 30])
        grouped = self.new("w")
        step: Step = {"op": "windowed_by", "id": grouped, "of": node.id, "windows": windows}
        if self.chance(0.3):
            step["emit"] = "close"
        self.steps.append(step)
        made = Node("table", self.new("w"), key, LONG)
        op = self.random.choice(["count", "reduce", "aggregate"])
        result: Step = {"op": op, "id": made.id, "of": grouped}
        if op == "reduce":
            made.value, result["fn"] = node.value, self.random.choice(REDUCERS[node.value])
        elif op == "aggregate":
            made.value = self.fold(result, windows)
        options: Step = {"key": node.key, "value": made.value}
        if self.chance(0.4):
            options["name"] = self.new("windows-")
        if self.chance(0.3):
            options["engine"] = "memory"
        if "emit" in step or self.chance(0.3):
            options["retention"] = _KEPT
        self.add(made, self.named({**result, "materialized": options}))
        self.closing.add(made.id)

    def fold(self, step: Step, windows: Step | None) -> str:
        step["fn"], _, initializers, result = self.random.choice(AGGREGATORS)
        step["init"] = self.random.choice(initializers)
        if windows is not None and windows["kind"] == "session":
            step["merge"] = MERGERS[step["fn"]]
        return result

    def cogrouped(self, node: Node) -> None:
        fold: Step = {}
        windows = self.random.choice(_COGROUPED)
        result = self.fold(fold, windows)
        of = self.new("c")
        self.steps.append({"op": "cogroup", "id": of, "of": node.id, "fn": fold["fn"]})
        other = self.like(node, "grouped")
        if other is not None and other is not node:
            self.steps.append({"op": "cogroup", "id": of + "-more", "of": of, "with": other.id, "fn": fold["fn"]})
            of += "-more"
        made = Node("table", self.new("t"), node.key, result)
        if windows is not None:
            self.steps.append({"op": "windowed_by", "id": of + "-by", "of": of, "windows": windows})
            session = windows["kind"] == "session"
            made.key, of = f"session_windowed({node.key})" if session else f"time_windowed({node.key},20)", of + "-by"
            self.closing.add(made.id)
        step = {**fold, "op": "aggregate", "id": made.id, "of": of}
        del step["fn"]
        step["materialized"] = {"key": node.key, "value": result}
        self.add(made, self.named(step))

    def events(self, count: int) -> list[Step]:
        """Now and then so much time passes on the wall clock that results which are throttled go out."""
        return [
            {"advance": self.random.choice([400, 1500])} if "advance" in event and self.chance(0.5) else event
            for event in super().events(count)
        ]


def language_program(seed: int, size: int = 14, events: int = 40) -> Program:
    """A random program with steps of every kind."""
    return LanguageGenerator(seed).generate(size, events)


def without_buffers(make: Callable[[int], Program], seed: int) -> Program:
    """A random program that holds nothing back: other headers are in the buffers of Kafka Streams
    (docs/departures.md)."""
    made = (make(at) for at in count(seed, 100_000))
    return next(each for each in made if not any(map(_holds, each["steps"])))


def _holds(step: Step) -> bool:
    """Says whether a step holds records for a while: a suppression, or a join with a table that has a grace."""
    return step["op"] == "suppress" or "grace" in step.get("joined", {})
