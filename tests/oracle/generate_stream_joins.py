"""Makes random joins of two streams; the same seed, the same program.

Called by the tests of this folder. Streams may be repartitioned, joined with themselves, and joined again (a chain);
records come late, at the same time, and without key or value. The cases that Kafka Streams gets wrong are left out
(docs/departures.md): windows of no length and windows that lie on one side; records without value where stores are in
memory; with optimisation, a stream joined with itself whose records have no key or are outside their own window.
"""

from __future__ import annotations

from typing import Any

from vocabulary import TEXT, Generator, Program, Step

_WINDOWS: list[dict[str, int]] = [
    {"size": 10},
    {"size": 10, "grace": 5},
    {"size": 5, "grace": 50},
    {"size": 10, "before": 3},
    {"size": 10, "after": 1, "grace": 7},
    {"size": 1000},
]


class StreamJoinGenerator(Generator):
    """Programs of joins."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.streams: list[str] = []
        self.joins_itself = False
        self.in_memory = False

    def generate(self, events: int) -> Program:
        self.streams = [self.source("left"), self.source("right")]
        for _ in range(self.random.choice([1, 1, 2])):
            self.join()
        last = self.streams[-1]
        self.steps.append({"op": "to", "of": last, "topic": "out", "produced": {"key": TEXT, "value": TEXT}})
        return self.program("dsl", events)

    def source(self, topic: str) -> str:
        step: Step = {"op": "stream", "id": self.new("s"), "topics": [self.topic(topic, TEXT, TEXT)]}
        self.steps.append({**step, "consumed": {"key": TEXT, "value": TEXT}})
        return self.rekeyed(step["id"])

    def rekeyed(self, stream: str) -> str:
        if not self.chance(0.3):
            return stream
        step: Step = {"op": "select_key", "id": self.new("k"), "of": stream}
        step["fn"] = self.random.choice(["same_key", "null_key_if_odd", "first_letter"])
        if self.chance(0.3):
            step["name"] = self.new("key-")
        self.steps.append(step)
        return str(step["id"])

    def join(self) -> None:
        left = self.streams[-1]
        itself = self.chance(0.2)
        right = left if itself else self.streams[0]
        self.joins_itself |= left == right
        windows = self.random.choice(_WINDOWS)
        args = self.random.choice([2, 3])
        step: Step = {"op": self.random.choice(["join", "left_join", "outer_join"]), "id": self.new("j"), "of": left}
        step |= {"with": right, "windows": windows, "args": args, "fn": "both" if args == 2 else "all"}
        self.steps.append({**step, "stream_joined": self.stream_joined()})
        self.streams.append(self.rekeyed(step["id"]))

    def stream_joined(self) -> Step:
        options: Step = {"key": TEXT, "value": TEXT, "other_value": TEXT}
        if self.chance(0.4):
            options["name"] = self.new("join-")
        if self.chance(0.4):
            options["store_name"] = self.new("store-")
        if self.chance(0.5):
            options["engine"] = self.random.choice(["memory", "rocksdb"])
            self.in_memory |= options["engine"] == "memory"
        if self.chance(0.2):
            options["logging"] = False
        return options

    def events(self, count: int) -> list[Step]:
        """Few keys, so that records meet."""
        time, events = self.random.choice([0, 100, 1000]), []
        for number in range(count):
            if self.chance(0.1):
                events.append({"advance": self.random.choice([1, 400, 2500])})
                continue
            time += self.random.choice([0, 0, 1, 2, 5, 10, 30, 100])
            event: dict[str, Any] = {"topic": self.random.choice(["left", "right"])}
            event["ts"] = max(0, time - self.random.choice([0, 0, 0, 1, 5, 10, 20, 40]))
            event["key"] = None if self.chance(0.08) and not self.joins_itself else self.random.choice("abc")
            event["value"] = None if self.chance(0.1) and not self.in_memory else f"{self.random.choice('xy')}{number}"
            if self.chance(0.15):
                event["headers"] = [["h", "eA=="]]
            events.append(event)
        return events


def stream_join_program(seed: int, events: int = 40) -> Program:
    """A random program of joins of streams."""
    generator = StreamJoinGenerator(seed)
    program = generator.generate(events)
    if generator.joins_itself and any(step.get("fn") == "null_key_if_odd" for step in program["steps"]):
        program["optimize"] = False
    return program
