"""Makes random joins with tables; the same seed, the same program.

Called by the tests of this folder. Tables may be filtered, stored, and joined again, by their own keys or by foreign
ones; updates come late, at the same time, and without key or value.
"""

from __future__ import annotations

from typing import Any

from vocabulary import TEXT, Generator, Program, Step

_SERDES = {"key": TEXT, "value": TEXT}


class TableJoinGenerator(Generator):
    """Programs of joins with tables."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.tables: list[str] = []
        #: Those of them that Kafka Streams knows how to write, as a join by foreign key does.
        self.declared: list[str] = []

    def generate(self, events: int) -> Program:
        self.tables = [self.table("left"), self.table("right")]
        self.declared = list(self.tables)
        stream = self.new("s")
        topics = [self.topic("stream", TEXT, TEXT)]
        self.steps.append({"op": "stream", "id": stream, "topics": topics, "consumed": _SERDES})
        for _ in range(self.random.randint(1, 3)):
            self.join()
        joined = self.new("j")
        join: Step = {"op": self.random.choice(["join", "left_join"]), "id": joined, "of": stream, "fn": "both"}
        self.steps.append({**join, "with": self.random.choice(self.tables)})
        self.steps.append({"op": "to", "of": joined, "topic": "out", "produced": _SERDES})
        for table in self.tables[2:]:
            self.steps.append({"op": "to_stream", "id": f"{table}-stream", "of": table})
            self.steps.append({"op": "to", "of": f"{table}-stream", "topic": f"out-{table}", "produced": _SERDES})
        return self.program("dsl", events)

    def table(self, topic: str) -> str:
        step: Step = {"op": "table", "id": self.new("t"), "topic": self.topic(topic, TEXT, TEXT), "consumed": _SERDES}
        self.steps.append({**step, **self.stored(0.3)})
        return str(step["id"])

    def stored(self, probability: float) -> Step:
        return {"materialized": {**_SERDES, "name": self.new("store-")}} if self.chance(probability) else {}

    def join(self) -> None:
        by_foreign_key = self.chance(0.4)
        tables = self.declared if by_foreign_key else self.tables
        left, right = (self.filtered(self.random.choice(tables)) for _ in range(2))
        step: Step = {"id": self.new("j"), "of": left, "with": right, "fn": self.random.choice(["both", "right"])}
        # Kafka Streams needs the serdes of a join's result where it keeps the result.
        stored = self.stored(0.4) or {"materialized": _SERDES}
        if by_foreign_key:
            step |= {"op": self.random.choice(["join", "left_join"]), "extractor": "first_letter", "extractor_args": 2}
        else:
            step["op"] = self.random.choice(["join", "left_join", "outer_join"])
            stored = stored if self.chance(0.5) else {}
        self.steps.append({**step, **stored})
        self.tables.append(step["id"])
        if stored:
            self.declared.append(step["id"])

    def filtered(self, table: str) -> str:
        if not self.chance(0.3):
            return table
        step: Step = {"op": "filter", "id": self.new("f"), "of": table, "fn": "value_even"}
        self.steps.append(step)
        return str(step["id"])

    def events(self, count: int) -> list[Step]:
        return [self.event(at) for at in range(count)]

    def event(self, at: int) -> dict[str, Any]:
        pick = self.random.choice
        return {
            "topic": pick(["left", "right", "stream"]),
            "key": pick(["a", "b", "c", None] if self.chance(0.2) else ["a", "b", "c"]),
            "value": pick(["a", "bb", "b", "cc", "", None]),
            "ts": max(0, 3 * at + self.random.randint(-20, 5)),
        }
