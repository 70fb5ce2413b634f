"""Makes random programs with windowed and cogrouped aggregations; the same seed, the same program.

Called by the tests of this folder.
"""

from __future__ import annotations

from typing import Any

from vocabulary import LONG, TEXT, Generator, Program, Step

_KEYS: dict[str, list[Any]] = {TEXT: ["a", "b", "ab", "", "é", None], LONG: [0, 1, 7, -1, None]}
_VALUES: dict[str, list[Any]] = {TEXT: ["a", "bb", "a b", "four", None], LONG: [0, 1, 2, 3, 5, None]}
#: (aggregator, initializers, merger, type of the result)
_FOLDS = [
    ("count", ["zero", "null"], "sum", LONG),
    ("sum", ["zero", "null"], "sum", LONG),
    ("join", ["empty", "null"], "join", TEXT),
    ("null_if_odd", ["zero"], "null_if_odd_sum", LONG),
]
#: How many programs have a cogroup.
COGROUPED = 0.3
#: How many programs join windows that are just as old as the retention of their stores.
AT_THE_EDGE = 0.25
KINDS = ("time", "sliding", "session", "unlimited")


class WindowGenerator(Generator):
    """One or two topics, aggregated by key and window into one or two tables."""

    def generate(self, events: int) -> Program:
        key = self.kind_of_value()
        self.at_the_edge = self.chance(AT_THE_EDGE)
        if self.at_the_edge:
            self.joined(key)
        elif self.chance(COGROUPED):
            self.table(*self.cogrouped(key))
        else:
            group, value = self.group(key)
            for _ in range(self.random.choice([1, 1, 2])):
                self.windowed(group, key, value)
        program = self.program("dsl", events)
        return {**program, "optimize": self.chance(0.2)}

    def group(self, key: str) -> tuple[str, str]:
        value = self.kind_of_value()
        topic = self.topic(self.new("in-"), key, value)
        serdes = {"key": key, "value": value}
        stream, group = self.new("s"), self.new("g")
        self.steps.append({"op": "stream", "id": stream, "topics": [topic], "consumed": serdes})
        step: Step = {"op": "group_by_key", "id": group, "of": stream}
        if self.chance(0.3):
            step |= {"op": "group_by", "fn": "same_key", "grouped": dict(serdes)}
            if self.chance(0.4):
                step["grouped"]["name"] = self.new("grouped-")
        self.steps.append(step)
        return group, value

    def windows(self, kind: str) -> Step:
        windows: Step = {"kind": kind}
        size = self.random.choice([1, 5, 10, 30, 100])
        if kind == "unlimited":
            return windows | {"start": self.random.choice([0, 20, 1000])}
        windows["gap" if kind == "session" else "size"] = size
        if self.chance(0.7):
            windows["grace"] = self.random.choice([0, 2, 10, 50])
        if kind == "time" and self.chance(0.5):
            windows["advance"] = self.random.randint(max(1, size // 4), size)
        return windows

    def windowed(self, group: str, key: str, value: str) -> None:
        windows = self.windows(self.random.choice(KINDS))
        step: Step = {"op": "windowed_by", "id": self.new("w"), "of": group, "windows": windows}
        if windows["kind"] != "unlimited" and self.chance(0.4):
            step["emit"] = self.random.choice(["close", "close", "update"])
        self.steps.append(step)
        op = self.random.choice(["count", "reduce", "aggregate"])
        made: Step = {"op": op, "id": self.new("t"), "of": step["id"]}
        result = {"count": LONG, "reduce": value}.get(op)
        if op == "reduce":
            made["fn"] = self.random.choice(["latest", "sum", "null_if_odd_sum"] if value == LONG else ["concat"])
        if op == "aggregate":
            result = self.fold(made, windows["kind"])
        self.table(made, key, result or LONG, windows, close=step.get("emit") == "close")

    def joined(self, key: str) -> None:
        """Two tables of windows that go out on close, joined: each is read at the end of its retention. Sizes and times
        are tens, and no record comes later than the record that closes a window: else Kafka Streams loses results."""
        group, _ = self.group(key)
        windows: Step = {"kind": self.random.choice(["time", "sliding"]), "size": self.random.choice([10, 20, 30])}
        windows["grace"] = self.random.choice([0, 10, 20])
        if windows["kind"] == "time" and self.chance(0.5):
            windows["advance"] = 10
        sides = []
        for _ in range(2):
            step: Step = {"op": "windowed_by", "id": self.new("w"), "of": group, "windows": windows, "emit": "close"}
            self.steps.append(step)
            made: Step = {"op": "count", "id": self.new("t"), "of": step["id"]}
            self.table(made, key, LONG, windows, close=True)
            sides.append(made["id"])
        join = {"op": self.random.choice(["join", "left_join", "outer_join"]), "id": self.new("j")}
        self.steps.append({**join, "of": sides[0], "with": sides[1], "fn": "total"})
        self.sent(join["id"], key, LONG, windows)

    def fold(self, step: Step, kind: str | None) -> str:
        step["fn"], initializers, merge, result = self.random.choice(_FOLDS)
        step["init"] = self.random.choice(initializers)
        if kind == "session":
            step["merge"] = merge
        return result

    def cogrouped(self, key: str) -> tuple[Step, str, str, Step | None]:
        fold, initializers, merge, result = self.random.choice(_FOLDS)
        of = self.new("c")
        first, _ = self.group(key)
        self.steps.append({"op": "cogroup", "id": of, "of": first, "fn": fold})
        for _ in range(self.random.choice([0, 1, 1, 2])):
            other, _ = self.group(key)
            more = self.new("c")
            self.steps.append({"op": "cogroup", "id": more, "of": of, "with": other, "fn": fold})
            of = more
        windows = None
        if self.chance(0.7):
            windows = self.windows(self.random.choice(KINDS))
            self.steps.append({"op": "windowed_by", "id": self.new("w"), "of": of, "windows": windows})
            of = self.steps[-1]["id"]
        step: Step = {"op": "aggregate", "id": self.new("t"), "of": of, "init": self.random.choice(initializers)}
        if windows is not None and windows["kind"] == "session":
            step["merge"] = merge
        return step, key, result, windows

    def table(self, step: Step, key: str, value: str, windows: Step | None, close: bool = False) -> None:
        """Completes a step, and writes what comes of it into a topic."""
        if self.chance(0.3):
            step["name"] = self.new("named-")
        options: Step = {"key": key, "value": value}
        if self.chance(0.7):
            options["name"] = self.new("st-")
        if self.chance(0.3):
            options["engine"] = "memory"
        if windows is not None and windows["kind"] != "unlimited" and (close or self.chance(0.3)):
            # With less, Kafka Streams loses what it should send on close.
            options["retention"] = self.least(windows, options) if self.at_the_edge else 100_000
        if self.chance(0.1):
            options["logging"] = False
        step["materialized"] = options
        self.steps.append(step)
        self.sent(step["id"], key, value, windows)

    def spoilt(self, event: Step) -> Step:
        return event if self.at_the_edge else super().spoilt(event)

    def least(self, windows: Step, options: Step) -> int:
        """A retention that is long enough for results to go out, or little more; stores in memory keep windows for a
        millisecond less."""
        needed = windows["size"] * (2 if windows["kind"] == "sliding" else 1) + windows["grace"]
        more: int = self.random.choice([0, 0, 10, 40])
        return int(needed) + (more or 10 if "engine" in options else more)

    def sent(self, of: str, key: str, value: str, windows: Step | None) -> None:
        produced = {"key": _windowed(key, windows), "value": value}
        self.steps.append({"op": "to_stream", "id": of + "-out", "of": of})
        self.steps.append({"op": "to", "of": of + "-out", "topic": "out-" + of, "produced": produced})

    def events(self, count: int) -> list[Step]:
        """Times lie close together, with ties, and some records are late."""
        if self.at_the_edge:
            return self.in_tens(count)
        time = self.random.choice([0, 0, 100, 1000])
        events: list[Step] = []
        for _ in range(count):
            time += self.random.choice([0, 0, 1, 1, 2, 5, 9, 20, self.random.choice([60, 250])])
            topic = self.random.choice(sorted(self.inputs))
            late = self.random.choice([0, 0, 0, 1, 3, 8, 30, 70])
            event: Step = {"topic": topic, "ts": max(0, time - late)}
            event["key"] = self.random.choice(_KEYS[self.inputs[topic]["key"]])
            event["value"] = self.random.choice(_VALUES[self.inputs[topic]["value"]])
            events.append(event)
        return events

    def in_tens(self, count: int) -> list[Step]:
        """Time goes on by ten at most, and wall-clock time with it: every window that closes is sent at once."""
        latest, topic, events = 0, next(iter(self.inputs)), []
        kinds = self.inputs[topic]
        for _ in range(count):
            at = max(0, latest + self.random.choice([10, 10, 10, 0, 0, -10, -20]))
            latest = max(at, latest)
            event: Step = {"topic": topic, "ts": at, "key": self.random.choice(_KEYS[kinds["key"]][:3])}
            event["value"] = self.random.choice(_VALUES[kinds["value"]][:3])
            events += [event, {"advance": 1000}]
        return events


def _windowed(key: str, windows: Step | None) -> str:
    if windows is None:
        return key
    return f"session_windowed({key})" if windows["kind"] == "session" else f"time_windowed({key},10)"


def window_program(seed: int, events: int = 30) -> Program:
    """The program of a seed."""
    return WindowGenerator(seed).generate(events)
