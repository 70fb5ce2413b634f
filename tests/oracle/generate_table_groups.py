"""Makes random programs that aggregate what other aggregations, tables and joins come to; the same seed, the same
program.

Called by the tests of this folder. Values are above zero. No aggregation of a table depends on the order of its rows,
and a group without rows goes. A stream of updates, under other keys, goes into a table of the last ones. So the last
tables are the same whether changes of a row travel one by one or combined.
"""

from __future__ import annotations

from typing import Any

from vocabulary import LONG, TEXT, Generator, Program, Step

_SERDES = {"key": TEXT, "value": LONG}


class TableGroupGenerator(Generator):
    """Programs of tables that are grouped anew, once or several times. Tables of the first row have numbers."""

    def generate(self, count: int, emit: str | None) -> Program:
        self.emit = emit
        if self.chance(0.4):
            self.rekeyed(self.aggregated(_NEVER_DELETED))
        tables = [self.random.choice([self.table, self.aggregated])() for _ in range(self.random.randint(1, 2))]
        if len(tables) > 1 and self.chance(0.6):
            tables.append(self.joined(*tables))
        for _ in range(self.random.randint(1, 3)):
            table = self.random.choice(tables)
            tables.append(self.grouped(self.filtered(table) if self.chance(0.3) else table))
        for table in tables:
            if self.chance(0.5) or table is tables[-1]:
                self.steps.append({"op": "to_stream", "id": f"{table}-stream", "of": table})
                self.steps.append({"op": "to", "of": f"{table}-stream", "topic": f"out-{table}", "produced": _SERDES})
        events = [self.event(at) for at in range(count)]
        return {
            "api": "dsl",
            "optimize": self.chance(0.4),
            "steps": self.steps,
            "inputs": self.inputs,
            "events": events,
        }

    def event(self, at: int) -> Step:
        topic, key = self.random.choice(sorted(self.inputs)), self.random.choice(["a", "b", "c", "ab", "d"])
        value = self.random.choice([*range(1, 30), None])
        return {"topic": topic, "key": key, "value": value, "ts": max(0, 3 * at + self.random.randint(-20, 5))}

    def kept(self, *, always: bool = True) -> Step:
        if not always and self.chance(0.5):
            return {}
        options: Step = {**_SERDES, "name": self.new("store-")}
        return {"materialized": options if self.emit is None else options | {"emit": self.emit}}

    def table(self) -> str:
        made = self.new("t")
        topic = self.topic(f"in-{made}", TEXT, LONG)
        self.steps.append({"op": "table", "id": made, "topic": topic, "consumed": _SERDES, **self.kept()})
        return made

    def aggregated(self, kinds: list[Step] | None = None) -> str:
        """A table of the records of a stream."""
        stream, group, made = self.new("s"), self.new("g"), self.new("a")
        topics = [self.topic(f"in-{made}", TEXT, LONG)]
        self.steps += [
            {"op": "stream", "id": stream, "topics": topics, "consumed": _SERDES},
            {"op": "group_by_key", "id": group, "of": stream, "grouped": _SERDES},
            {"id": made, "of": group, **self.random.choice(kinds or _OF_RECORDS), **self.kept()},
        ]
        return made

    def rekeyed(self, table: str) -> None:
        """The updates of a table, which go on under other keys into a table of the last ones; perhaps twice."""
        numbers = {"key": LONG, "value": LONG}
        for again in range(self.random.randint(1, 2)):
            updates, stream, last = self.new("s"), self.new("m"), self.new("l")
            self.steps += [
                {"op": "to_stream", "id": updates, "of": table, **({"fn": "same_key"} if again else {})},
                {"op": "map", "id": stream, "of": updates, "fn": "key_length"},
            ]
            kept = {"materialized": {**self.kept()["materialized"], **numbers}}
            if self.chance(0.3):
                self.steps.append({"op": "to_table", "id": last, "of": stream, **kept})
            else:
                self.steps += [
                    {"op": "group_by_key", "id": f"{last}g", "of": stream, "grouped": numbers},
                    {"op": "reduce", "fn": "latest", "id": last, "of": f"{last}g", **kept},
                ]
            table = last
        self.steps.append({"op": "to_stream", "id": f"{table}-stream", "of": table})
        self.steps.append({"op": "to", "of": f"{table}-stream", "topic": f"out-{table}", "produced": numbers})

    def joined(self, left: str, right: str) -> str:
        made = self.new("j")
        join = self.random.choice(["join", "left_join", "outer_join"])
        self.steps.append({"op": join, "id": made, "of": left, "with": right, "fn": "total", **self.kept(always=False)})
        return made

    def filtered(self, table: str) -> str:
        made = self.new("f")
        self.steps.append({"op": "filter", "id": made, "of": table, "fn": "value_even", **self.kept(always=False)})
        return made

    def grouped(self, table: str) -> str:
        group, made = self.new("g"), self.new("a")
        fn = self.random.choice(["first_letter", "value_as_key", "null_key_if_odd"])
        self.steps += [
            {"op": "group_by", "id": group, "of": table, "fn": fn, "grouped": _SERDES},
            {"id": made, "of": group, **self.random.choice(_OF_ROWS), **self.kept()},
        ]
        return made


_OF_RECORDS: list[dict[str, Any]] = [
    {"op": "count"},
    {"op": "reduce", "fn": "sum"},
    {"op": "reduce", "fn": "latest"},
    {"op": "reduce", "fn": "null_if_odd_sum"},
    {"op": "aggregate", "fn": "sum", "init": "zero"},
]
_NEVER_DELETED: list[Step] = [
    {"op": "count"},
    {"op": "reduce", "fn": "sum"},
    {"op": "aggregate", "fn": "sum", "init": "zero"},
]
_OF_ROWS: list[dict[str, Any]] = [
    {"op": "reduce", "fn": "sum", "subtract": "minus_or_none"},
    {"op": "aggregate", "fn": "sum", "subtract": "unsum_or_none", "init": "zero"},
    {"op": "aggregate", "fn": "count", "subtract": "uncount_or_none", "init": "zero"},
]
