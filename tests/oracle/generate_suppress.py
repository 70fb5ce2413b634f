"""Makes random programs of tables, windowed or not, whose updates are suppressed.

Called by the tests of this folder.
"""

from __future__ import annotations

from generate_dsl import DslGenerator
from vocabulary import AGGREGATORS, LONG, MERGERS, Node, Program, Step


class SuppressGenerator(DslGenerator):
    """Programs with ``suppress`` in front of what is done with a table."""

    def extend(self, node: Node) -> None:
        if node.kind == "table" and self.chance(0.5):
            self.add(*self.suppressed(node, windowed=False))
        elif node.kind == "grouped" and self.chance(0.5):
            self.windowed(node)
        else:
            super().extend(node)

    def windowed(self, node: Node) -> None:
        """An aggregation by window, suppressed until its windows close or for a time, as a stream of text."""
        size, kind = self.random.choice([5, 20, 60]), self.random.choice(["time", "time", "sliding", "session"])
        session = kind == "session"
        windows: Step = {"kind": kind, "gap" if session else "size": size}
        if kind == "time" and self.chance(0.3):
            windows["advance"] = self.random.randint(max(1, size // 3), size)
        if self.chance(0.5):
            windows["grace"] = self.random.choice([0, 3, 30])
        grouped = self.new("w")
        self.steps.append({"op": "windowed_by", "id": grouped, "of": node.id, "windows": windows})
        key = f"session_windowed({node.key})" if session else f"time_windowed({node.key},{size})"
        table = Node("table", self.new("t"), key, LONG)
        step: Step = {"op": "count", "id": table.id, "of": grouped}
        if self.chance(0.5):
            add, _, initializers, table.value = self.random.choice(AGGREGATORS)
            step |= {"op": "aggregate", "fn": add, "init": self.random.choice(initializers)}
            if session:
                step["merge"] = MERGERS[add]
        step["materialized"] = {"key": node.key, "value": table.value}
        self.steps.append(step)
        for _ in range(self.random.choice([1, 1, 2])):
            table, suppressed = self.suppressed(table, windowed=True)
            self.steps.append(suppressed)
        stream = self.new("s")
        self.steps.append({"op": "to_stream", "id": stream, "of": table.id})
        produced = {"key": table.key, "value": table.value}
        self.steps.append({"op": "to", "of": stream, "topic": self.new("out-"), "produced": produced})

    def suppressed(self, node: Node, *, windowed: bool) -> tuple[Node, Step]:
        made = Node("table", self.new("u"), node.key, node.value, node.key_known, node.value_known)
        step: Step = {"op": "suppress", "id": made.id, "of": node.id}
        closes = windowed and self.chance(0.6)
        step["until"] = "window_closes" if closes else {"time_limit": self.random.choice([0, 5, 20, 200])}
        full = self.random.choice(["shutdown", "emit", "emit", "emit"])
        if self.chance(0.2 if closes else 0.5):
            step |= {"records": self.random.randint(1, 4), "full": "shutdown" if closes else full}
        if self.chance(0.1 if closes else 0.4):
            step |= {"bytes": self.random.choice([60, 100, 250]), "full": "shutdown" if closes else full}
        if self.chance(0.1):
            step["logging"] = False
        if not node.value_known:
            step = {"op": "filter", "id": made.id, "of": node.id, "fn": "all"}  # it could not write its buffer
        return made, self.named(step)


def suppress_program(seed: int, size: int = 12, events: int = 40) -> Program:
    """A random program with suppression."""
    return SuppressGenerator(seed).generate(size, events)
