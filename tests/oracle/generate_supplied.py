"""Makes random programs of the whole language in which users bring parts of their own: suppliers of stores, processors
that bring their stores, transformers with a store, partitioners; and optimisations one by one. The same seed, the same
program.

Called by the tests of this folder.
"""

from __future__ import annotations

from generate_language import LanguageGenerator
from vocabulary import LONG, TEXT, Node, Program, Step

_OPTIMISATIONS = ["reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join"]
_PARTITIONERS = ["first", "by_default", "by_value"]
#: Chooses no partition for some records, which a foreign-key join does not allow.
_BY_HEADERS = "even_headers"


class SuppliedGenerator(LanguageGenerator):
    """Programs with what users bring."""

    def generate(self, size: int, events: int) -> Program:
        program = super().generate(size, events)
        # A partitioner that fails takes more than the one record with it in Kafka Streams (docs/departures.md).
        partitioners = _PARTITIONERS[:2] if "survives" in program else _PARTITIONERS
        for step in program["steps"]:
            self.partitioned(step, partitioners)
        if program["optimize"]:
            some = self.random.sample(_OPTIMISATIONS, self.random.randint(1, len(_OPTIMISATIONS)))
            program["optimize"] = ",".join(some)
        return program

    def partitioned(self, step: Step, partitioners: list[str]) -> None:
        """Gives a partitioner to what writes topics."""
        if step["op"] == "repartition" and self.chance(0.5):
            step["partitioner"] = self.random.choice([*partitioners, _BY_HEADERS])
        elif step["op"] == "to" and self.chance(0.5):
            step["produced"]["partitioner"] = self.random.choice([*partitioners, _BY_HEADERS])
        elif "extractor" in step and "with" in step:
            for side in ("partitioner", "other_partitioner"):
                if self.chance(0.5):
                    step[side] = self.random.choice(partitioners)

    def join_streams(self, node: Node) -> None:
        """The stores of one side or both by suppliers."""
        made = len(self.nodes)
        super().join_streams(node)
        if len(self.nodes) == made or "stream_joined" not in self.steps[-1]:
            return
        windows, joined = self.steps[-1]["windows"], self.steps[-1]["stream_joined"]
        size = sum(windows.get(side, windows["size"]) for side in ("before", "after"))
        for side in ("this", "other"):
            if self.chance(0.6):
                joined[side] = {"name": self.new("supplied-"), "size": size, "retention": size + windows["grace"]}
                joined[side] |= {"duplicates": True, "engine": joined.get("engine", "rocksdb")}

    def connected(self, step: Step, store: Step | None) -> Step:
        """The store that a processor needs, brought by its supplier."""
        if store is None or self.chance(0.5):
            return super().connected(step, store)
        return {**step, "brings": store}

    def transform(self, node: Node) -> None:
        """Counts the calls of a transformer in a store."""
        super().transform(node)
        if node.key in (TEXT, LONG) and self.chance(0.8):
            store = {**self.store(node.key, LONG, "kv"), "logging": False}
            self.steps[-1]["stores"] = [store["name"]]
            self.steps.insert(-1, store)

    def of_windows(self, node: Node, windows: Step, key: str) -> None:
        """Stores in memory by their suppliers."""
        super().of_windows(node, windows, key)
        options = self.steps[-1].get("materialized", {})
        if {"engine", "name", "retention"} <= options.keys() and self.chance(0.7):
            kind = "session" if windows["kind"] == "session" else "window"
            options["supplied"] = {"kind": kind, "size": windows.get("size", 0), "retention": options["retention"]}
            options["supplied"] |= {"engine": "memory"}


def supplied_program(seed: int, size: int = 14, events: int = 40) -> Program:
    """A random program with what users bring."""
    return SuppliedGenerator(seed).generate(size, events)
