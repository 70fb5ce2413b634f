"""Makes random programs of the Topology API that Kafka Streams accepts; the same seed, the same program.

Called by the tests of this folder.
"""

from __future__ import annotations

from vocabulary import PROCESSORS, TEXT, Generator, Node, Program, Step


class RawGenerator(Generator):
    """Programs of the Topology API."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.nodes: list[Node] = []
        self.stores: list[Step] = []
        self.globals: list[str] = []
        self.read_only: list[str] = []

    def generate(self, size: int, events: int, *, read_only: bool) -> Program:
        if self.chance(0.15):
            self.globals.append(self.filled_store("global_store"))
        if read_only and self.chance(0.15):
            self.read_only.append(self.filled_store("read_only_store"))
        for _ in range(self.random.randint(1, 3)):
            self.source()
        while len(self.steps) < size:
            makers = [self.processor_node, self.processor_node, self.processor_of_its_own, self.sink, self.source]
            self.random.choice(makers)()
        self.sink()
        self.choose_children()
        return self.program("topology", events)

    def name(self, prefix: str) -> str:
        """Names of varied lengths and letters, since Kafka Streams' order depends on their hashes."""
        letters = "".join(self.random.choice("abcXYZ019-_.") for _ in range(self.random.randint(0, 6)))
        return self.new(f"{prefix}{letters}")

    def filled_store(self, op: str) -> str:
        """A store that is filled from a topic of its own: on every instance, or by each task from its partition."""
        store: Step = {"name": self.new("filled-"), "key": TEXT, "value": TEXT, "engine": "memory", "logging": False}
        topic = self.topic(self.new("filled-in-"), TEXT, TEXT)
        step: Step = {"op": op, "store": store, "source": self.name("source"), "topic": topic}
        self.steps.append(step | {"key": TEXT, "value": TEXT, "processor": self.name("keep")})
        return str(store["name"])

    def source(self) -> None:
        node = Node("stream", self.name("source"), self.kind_of_value(), self.kind_of_value())
        step: Step = {"op": "source", "name": node.id, "key": node.key, "value": node.value}
        if self.chance(0.15):
            prefix = self.new("pattern-")
            step["pattern"] = f"{prefix}-[ab]"
            self.topic(f"{prefix}-a", node.key, node.value)
        else:
            count = self.random.choice([1, 1, 2, 3])
            # Kafka Streams' test driver takes a topic's name for a pattern, in which a dot fits any letter.
            names = [self.name("in-").replace(".", "-") for _ in range(count)]
            step["topics"] = [self.topic(name, node.key, node.value) for name in names]
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
        readable = [*self.globals, *self.read_only]
        if readable and parent.key == TEXT and self.chance(0.4):
            value, store, filled = TEXT, None, self.random.choice(readable)
            step = {"op": "processor", "name": step["name"], "parents": parents, "processor": "read"}
            step |= {"global": filled} if filled in self.globals else {"stores": [filled]}
        self.steps.append(step)
        if step["processor"] == "read" and "stores" in step:
            self.steps.append({"op": "connect", "processor": step["name"], "stores": step["stores"]})
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

    def processor_of_its_own(self) -> None:
        """A processor that changes keys, is called by time, chooses among its children, or keeps windows."""
        parent, parents = self.parents()
        made = Node("stream", self.name("node"), parent.key, parent.value)
        step: Step = {"op": "processor", "name": made.id, "parents": parents}
        ways = ["swap", "to_child", "window_api", "session_api", "headed_window_api", "headed_session_api"]
        if parent.key == TEXT:
            ways += ["tick_stream_time", "tick_wall_clock", "scheduling"]
        step["processor"] = self.random.choice(ways)
        self.steps.append(step)
        self.nodes.append(made)
        if step["processor"].endswith("_api"):
            kind = step["processor"].removesuffix("_api")
            store = self.store(parent.key, parent.value, kind) | {"name": self.name("store"), "logging": False}
            self.steps.append(store | {"size": 10, "retention": 500, "processors": [made.id]})
            step["stores"] = [store["name"]]
        elif step["processor"] == "swap":
            made.key = TEXT
        else:
            self.scheduled(step)
        if step["processor"] != "to_child":
            made.value = TEXT

    def choose_children(self) -> None:
        """Gives the names of their children to the processors that choose among them."""
        for step in self.steps:
            if step.get("processor") == "to_child":
                step["children"] = [each["name"] for each in self.steps if step["name"] in each.get("parents", ())]
                if not step["children"]:
                    step["processor"] = "pass"

    def sink(self) -> None:
        parent, parents = self.parents()
        step: Step = {"op": "sink", "name": self.name("sink"), "parents": parents}
        step |= {"key": parent.key, "value": parent.value}
        if self.chance(0.15):
            step["extractor"] = self.random.choice(["by_value_parity", "by_source_topic"])
        else:
            step["topic"] = self.new("out-")
        self.steps.append(step)


def raw_program(seed: int, size: int = 10, events: int = 30, *, read_only: bool = False) -> Program:
    """A random program of the Topology API, perhaps with read-only stores, which only Python has."""
    return RawGenerator(seed).generate(size, events, read_only=read_only)
