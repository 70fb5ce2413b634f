"""The parts that random programs are made of: the functions and processors by the types they map, values, records.

Used by ``generate_dsl`` and ``generate_raw``. The same seed gives the same program. A program is JSON: the oracle
runs it, and ``programs`` builds it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from random import Random
from typing import Any

from functions import BOOM, UNLUCKY

Step = dict[str, Any]
Program = dict[str, Any]

SAME, TEXT, LONG = "same", "string", "long"

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
#: The function that brings the aggregates of two sessions together, by aggregator.
MERGERS = {"count": "sum", "sum": "sum", "join": "join", "null_if_odd": "null_if_odd_sum"}
#: Processors that keep the key: type of the value, and the store they need: (kind, type of its value).
VALUE_PROCESSORS: dict[str, tuple[str, tuple[str, str] | None]] = {
    "pass": (SAME, None),
    "late": (SAME, None),
    "headers": (SAME, None),
    "metadata": (TEXT, None),
    "count": (LONG, ("kv", LONG)),
    "latest": (TEXT, ("timestamped", SAME)),
    "store_api": (TEXT, ("kv", SAME)),
    "headed_api": (TEXT, ("headed", SAME)),
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


#: Steps that may have a function which finds the time, or the topic, of a record.
_EXTRACTING = ("source", "sink", "to")


def resolve(result: str, given: str) -> str:
    return given if result == SAME else result


def _without_serde(steps: list[Step]) -> set[str]:
    """The tables and streams whose values are made anew, with no serde declared for them."""
    made: set[str] = set()
    for step in steps:
        anew = step["op"] == "map_values" or (step["op"] in ("filter", "filter_not") and step["of"] in made)
        if anew and "value" not in step.get("materialized", {}):
            made.add(step["id"])
    return made


def _survivable(step: Step, unwritten: set[str]) -> Step:
    """The step without parts whose failures Kafka Streams' handlers do not get, or for which they fail again and again,
    or lose more than the one record (docs/departures.md)."""
    if "extractor" in step and "with" in step and unwritten & {step["of"], step["with"]}:
        step = {name: value for name, value in step.items() if name not in ("extractor", "extractor_args")}
    step = {name: value for name, value in step.items() if name != "extractor" or step["op"] not in _EXTRACTING}
    if "consumed" in step:
        step["consumed"] = {name: value for name, value in step["consumed"].items() if name != "extractor"}
    if step["op"] in ("to", "sink"):
        step.setdefault("topic", f"out-{step.get('of') or step['name']}")
    if step.get("joined", {}).get("grace") is not None:
        step["joined"] = {name: value for name, value in step["joined"].items() if name != "grace"}
    return step | ({"op": "join"} if "windows" in step and step["op"] in ("left_join", "outer_join") else {})


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
    """The part of a generator that programs of both kinds have in common."""

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
            self.scheduled(step)
        store = None
        if needed is not None:
            store = self.store(key, resolve(needed[1], value), needed[0])
            step["stores"] = [store["name"]]
        return resolve(result, value), store

    def scheduled(self, step: Step) -> Step:
        """Says when a step's callbacks are due, now and then from a time of their own on."""
        step["interval"] = self.random.choice([5, 20, 50])
        if self.chance(0.4):
            step["start"] = self.random.choice([0, 3, 40, 130, 1010])
        return step

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
        program: Program = {
            "api": api,
            "optimize": self.chance(0.4),
            "steps": self.steps,
            "inputs": self.inputs,
            "events": self.events(events),
        }
        if self.chance(0.2) and not any(step.get("windows", {}).get("kind") == "session" for step in self.steps):
            unwritten = _without_serde(self.steps)
            steps = [_survivable(step, unwritten) for step in self.steps]
            # Optimised, Kafka Streams writes values of one type with the serde of another, and drops them there.
            program |= {
                "survives": True,
                "optimize": False,
                "steps": steps,
                "events": [self.spoilt(each) for each in program["events"]],
            }
        return program

    def spoilt(self, event: Step) -> Step:
        """Now and then a record that functions fail for, or that cannot be read."""
        if "ts" not in event or not self.chance(0.12):
            return event
        kind = self.inputs[event["topic"]]["value"]
        if kind == LONG and self.chance(0.3):
            return {**event, "value_raw": "AAE="}
        return {**event, "value": BOOM if kind == TEXT else UNLUCKY}
