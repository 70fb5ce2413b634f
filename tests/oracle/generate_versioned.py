"""Makes random programs on versioned tables; the same seed, the same program.

Called by the tests of this folder. A stream is joined with a versioned table, or one derived of it, with a grace or
without; versioned tables are derived, aggregated and joined, and kept with versions or without. No update is older than
the tables' history: Kafka Streams logs such an update and does not keep it (docs/departures.md).
"""

from __future__ import annotations

from vocabulary import TEXT, Generator, Program, Step

_SERDES = {"key": TEXT, "value": TEXT}
#: By how much records come late, at most, and how long the tables' history is, at least.
_LATE = 25


class VersionedGenerator(Generator):
    """Programs on versioned tables."""

    def generate(self, events: int) -> Program:
        grace = self.random.choice([None, 0, 5, 20, 1000])
        table = self.derived(self.table("table", max(grace or 0, self.random.choice([_LATE, 50, 1000]))))
        stream: Step = {"op": "stream", "id": "s", "topics": [self.topic("stream", TEXT, TEXT)], "consumed": _SERDES}
        self.steps.append(stream)
        if self.chance(0.3):
            self.steps.append({"op": "select_key", "id": "k", "of": "s", "fn": "first_letter"})
        last = self.steps[-1]["id"]
        join: Step = {"op": self.random.choice(["join", "left_join"]), "id": "j", "of": last, "with": table}
        join |= {"fn": "all", "args": 3} if self.chance(0.3) else {"fn": "both"}
        name: Step = {"name": "named"} if self.chance(0.4) else {}
        join["joined"] = {**_SERDES, **name} | ({} if grace is None else {"grace": grace})
        self.steps += [join, {"op": "to", "of": "j", "topic": "out", "produced": _SERDES}]
        # Kafka Streams fails for a record without a key that is to wait.
        null_keys: list[str | None] = [None] if grace is None or join["op"] == "join" else []
        return {**self.program("dsl", 0), "events": self.updates(events, null_keys)}

    def tables(self, events: int) -> Program:
        """A program that derives tables of versioned ones."""
        made = [self.table("table", self.random.choice([_LATE, 50])), self.table("stream", 1000)]
        for _ in range(self.random.randint(1, 4)):
            make = self.random.choice([self.kept, self.kept, self.grouped, self.joined, self.summed])
            made.append(make(self.random.choice(made), self.random.choice(made)))
        for table in made:
            self.steps.append({"op": "to_stream", "id": f"{table}-stream", "of": table})
            self.steps.append({"op": "to", "of": f"{table}-stream", "topic": f"out-{table}", "produced": _SERDES})
        return {**self.program("dsl", 0), "events": self.updates(events, [None])}

    def stored(self, *, unnamed: bool) -> Step:
        """Chooses how a table is kept: not at all, with its last values, or with versions."""
        way = self.random.choice(["no", "plain", "versioned", "versioned"] + ["unnamed"] * unnamed)
        if way == "no":
            return {}
        if way == "unnamed":
            return {"materialized": _SERDES}
        history = {"versioned": self.random.choice([_LATE, 1000])} if way == "versioned" else {}
        return {"materialized": {**_SERDES, "name": self.new("kept-"), **history}}

    def kept(self, table: str, _: str) -> str:
        """A table that is derived row by row."""
        ways = [("filter", "value_even"), ("filter_not", "value_even"), ("map_values", "exclaim")]
        op, fn = self.random.choice(ways)
        step: Step = {"op": op, "id": self.new("d"), "of": table, "fn": fn, **self.stored(unnamed=True)}
        self.steps.append(step)
        return str(step["id"])

    def grouped(self, table: str, _: str) -> str:
        """A table whose rows are grouped anew."""
        group, result = self.new("g"), self.new("a")
        stored = self.stored(unnamed=False) or {"materialized": _SERDES}
        self.steps += [
            {"op": "group_by", "id": group, "of": table, "fn": "first_letter", "grouped": _SERDES},
            {"op": "reduce", "id": result, "of": group, "fn": "concat", "subtract": "unconcat", **stored},
        ]
        return result

    def summed(self, table: str, _: str) -> str:
        """A table of the updates of another one."""
        stream, group, result = self.new("s"), self.new("g"), self.new("r")
        self.steps += [
            {"op": "to_stream", "id": stream, "of": table},
            {"op": "group_by_key", "id": group, "of": stream, "grouped": _SERDES},
            {"op": "reduce", "id": result, "of": group, "fn": "concat", **self.stored(unnamed=False)},
        ]
        return result

    def joined(self, left: str, right: str) -> str:
        """A table of two, by key or by foreign key."""
        step: Step = {"id": self.new("j"), "of": left, "with": right, "fn": "both"}
        if self.chance(0.4):
            step |= {"op": self.random.choice(["join", "left_join"]), "extractor": "first_letter", "extractor_args": 2}
        else:
            step["op"] = self.random.choice(["join", "left_join", "outer_join"])
        # Kafka Streams needs the serdes of a join's result.
        self.steps.append({**step, **(self.stored(unnamed=False) or {"materialized": _SERDES})})
        return str(step["id"])

    def table(self, topic: str, history: int) -> str:
        step: Step = {"op": "table", "id": self.new("t"), "topic": self.topic(topic, TEXT, TEXT), "consumed": _SERDES}
        self.steps.append({**step, "materialized": {**_SERDES, "name": self.new("versions-"), "versioned": history}})
        return str(step["id"])

    def derived(self, table: str) -> str:
        """The table, or a table that is computed from its versions."""
        ways = [("filter", "value_even"), ("map_values", "exclaim"), ("transform_values", "key_and_value")]
        if self.chance(0.4):
            return table
        op, fn = self.random.choice(ways)
        step: Step = {"op": op, "id": self.new("d"), "of": table, "fn": fn}
        self.steps.append(step)
        return str(step["id"])

    def updates(self, count: int, null_keys: list[str | None]) -> list[Step]:
        """Records that come out of order, at the same time, without value, and perhaps without key."""
        start, pick = self.random.choice([0, 2000]), self.random.choice
        keys: list[str | None] = ["a", "b", "ab", *null_keys]
        return [
            {
                "topic": pick(["stream", "table"]),
                "key": pick(keys),
                "value": pick(["a", "bb", "b", "cc", None]),
                "ts": max(0, start + 3 * at + self.random.randint(-_LATE + 5, 5)),
            }
            for at in range(count)
        ]
