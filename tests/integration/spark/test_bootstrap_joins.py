"""History bootstrapped while joins wait, then live: the same results as live from the beginning."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from hurried_rows import HURRIED
from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from spark_apps import App
from streamsapp.runtime.client_state import ClientState

pytestmark = [pytest.mark.long, pytest.mark.timeout(1100)]

PARTITIONS = 2

PROGRAM = """
from streamsapp import *

TEXT = Serdes.string()
READ = Consumed(TEXT, TEXT)


def topology():
    builder = StreamsBuilder()
    lefts, rights = builder.stream("{left}", READ), builder.stream("{right}", READ)
    pairs = lefts.outer_join(rights, lambda a, b: f"{a or '-'}/{b or '-'}", JoinWindows.of(60_000))
    pairs.to("{joined}", Produced(TEXT, TEXT))
    rows = builder.table("{rows}", READ, Materialized("rows", TEXT, TEXT, versioned=600_000))
    of_rows = lefts.join(rows, lambda a, row: f"{a} of {row}", Joined(TEXT, TEXT, grace=60_000))
    of_rows.to("{joined}", Produced(TEXT, TEXT))
    return builder.build()
"""

BY_FOREIGN_KEY = """
from streamsapp import *

TEXT = Serdes.string()
READ = Consumed(TEXT, TEXT)


def topology():
    builder = StreamsBuilder()
    rows, others = builder.table("{rows}", READ), builder.table("{others}", READ)
    named = Materialized("named", TEXT, TEXT)
    joined = rows.left_join(others, lambda row: row[:2], lambda row, other: f"{row}/{other or '-'}", named)
    joined.to_stream().to("{joined}", Produced(TEXT, TEXT))
    counts = Materialized("counts", TEXT, Serdes.long())
    joined.group_by(lambda key, value: (value[:2], value), Grouped(TEXT, TEXT)).count(counts)
    return builder.build()
"""

INNER = """
from streamsapp import *

TEXT = Serdes.string()
READ = Consumed(TEXT, TEXT)


def topology():
    builder = StreamsBuilder()
    rows, others = builder.table("{rows}", READ, Materialized("left", TEXT, TEXT)), builder.table("{others}", READ)
    partner = lambda row: None if row == "none" else row[0]
    joined = rows.join(others, partner, lambda row, other: f"{row}/{other}", Materialized("named", TEXT, TEXT))
    joined.to_stream().to("{joined}", Produced(TEXT, TEXT))
    return builder.build()
"""


class Run:
    """One application with an output topic of its own, and the inputs that all share."""

    def __init__(self, instances: Instances, inputs: dict[str, str], name: str, code: str = PROGRAM) -> None:
        self._inputs = inputs
        self._joined = instances.kafka.create_topic("joined", PARTITIONS)
        for field, topic in {**inputs, "joined": self._joined}.items():
            code = code.replace(f"{{{field}}}", topic)
        self.app = App(instances, instances.kafka.unique(name), code)

    def processed(self) -> None:
        """Waits until all that came in so far is processed."""
        self.app.processed(*self._inputs.values())

    def results(self) -> Counter[tuple[bytes, bytes]]:
        """Returns the results, but for those of what closes windows."""
        found = ((each.key() or b"", each.value() or b"") for each in self.app.read(self._joined))
        return Counter((key, value) for key, value in found if not key.startswith(b"end"))

    def audited(self) -> None:
        """An audit that finds everything right."""
        code, said, errors = self.app.run("audit", "--master", "local[2]")
        assert (code, "no differences in " in said) == (0, True), (said, errors[-4000:])

    def last(self) -> dict[str, str | None]:
        """Returns the last result of each key."""
        found = self.app.read(self._joined)
        return {(each.key() or b"").decode(): None if (v := each.value()) is None else v.decode() for each in found}


def test_joins_that_wait_at_the_end_of_history_go_on_as_if_they_had_run_from_the_beginning(
    instances: Instances, kafka: Kafka
) -> None:
    inputs = {name: kafka.create_topic(name, PARTITIONS) for name in ("left", "right", "rows")}
    now = (int(time.time()) - 3600) * 1000

    def put(topic: str, values: dict[str, str], at: int) -> None:
        produce(kafka, inputs[topic], [(key.encode(), value.encode(), now + at) for key, value in values.items()])

    put("rows", {"k4": "old", "k5": "row", "k6": "row"}, 0)
    put("left", {f"k{number}": "l" for number in range(12)}, 1)
    put("right", {"k0": "r", "k1": "r", "r0": "r", "r1": "r"}, 2)
    runs = ours, reference = Run(instances, inputs, "bootstrapped"), Run(instances, inputs, "reference")
    ours.app.bootstrap()
    assert not ours.results()

    live = [run.app.start() for run in runs]
    reference.processed()
    # Records that come now find what waits: history of the one, what the other has processed.
    put("rows", {"k4": "late"}, 1)
    put("rows", {"k6": "too new"}, 2)
    put("right", {"k2": "r", "k3": "r"}, 5)
    put("left", {"r0": "l", "j0": "l"}, 6)
    for run in runs:
        run.processed()
    later = Counter([(key, b"l/r") for key in (b"k2", b"k3", b"r0")])
    later += Counter([(b"k%d" % number, b"l/-") for number in range(4, 12)] + [(b"j0", b"l/-"), (b"r1", b"-/r")])
    later += Counter([(b"k4", b"l of late"), (b"k5", b"l of row"), (b"k6", b"l of row")])
    at = 0

    def complete() -> bool:
        nonlocal at
        at += 200_000
        put("left", {f"end{number}": "x" for number in range(20)}, at)
        time.sleep(1)  # a record makes the join look for waiting rows, at most once in a second
        return ours.results().total() >= later.total() and reference.results().total() >= later.total() + 2

    eventually(complete)
    for instance in live:
        instance.close(30)
    assert ours.results() == later
    assert reference.results() == later + Counter([(b"k0", b"l/r"), (b"k1", b"l/r")])


Table = dict[str, str | None]


def joined(rows: Table, others: Table) -> Table:
    """Rows that begin with their foreign key, each with its foreign row."""
    return {key: None if row is None else f"{row}/{others.get(row[:2]) or '-'}" for key, row in rows.items()}


def test_a_foreign_key_join_goes_on_as_if_it_had_run_from_the_beginning(instances: Instances, kafka: Kafka) -> None:
    inputs = {name: kafka.create_topic(name, PARTITIONS) for name in ("rows", "others")}
    tables: dict[str, Table] = {"rows": {}, "others": {}}
    at = (int(time.time()) - 3600) * 1000

    def put(topic: str, values: Table) -> None:
        nonlocal at
        at += 1_000
        encoded = [(key.encode(), None if value is None else value.encode(), at) for key, value in values.items()]
        produce(kafka, inputs[topic], encoded)
        tables[topic] |= values

    def complete(run: Run) -> bool:
        """All rows that changed have their last results; rows that are as they were in history have none here."""
        found = run.last()
        expected = joined(tables["rows"], tables["others"])
        return all(found.get(key, before.get(key, "")) == result for key, result in expected.items())

    put("others", {f"f{number}": "other" for number in range(5)})
    put("rows", {f"k{number}": f"f{number % 6} row" for number in range(24)})  # the other table has no f5
    put("rows", {"k0": "f1 moved", "k1": None, "k6": "f5 moved"})
    put("others", {"f2": None, "f3": "changed"})
    before = joined(tables["rows"], tables["others"])
    runs = ours, reference = [Run(instances, inputs, name, BY_FOREIGN_KEY) for name in ("bootstrapped", "reference")]
    ours.app.bootstrap()
    assert not ours.results()
    ours.audited()

    # Records that come now find rows and their subscriptions: those of history, and what the other one has processed.
    live = [run.app.start() for run in runs]
    eventually(lambda: complete(reference), "what the reference makes of history")
    put("rows", {"k2": None, "k3": "f1 moved", "k24": "f4 new"})
    put("others", {"f1": "later", "f5": "found", "f3": None})
    # These come last, from every partition of the one to every partition of the other.
    put("rows", {f"z{number}": f"f{number % 6} last" for number in range(30)})
    eventually(lambda: all(map(complete, runs)), "the last results")
    for instance in live:
        instance.close(30)
    after = joined(tables["rows"], tables["others"])
    assert reference.last() == after
    assert ours.last() == {key: result for key, result in after.items() if result != before.get(key)}
    # The time of a result without a foreign row says which of the two came first. Live, the network decides it.
    stored = [{name: store for name, store in run.app.stored().items() if name != "named"} for run in runs]
    named = [{key: value.value for key, value in run.app.stored()["named"].items()} for run in runs]
    assert stored[0] == stored[1]
    assert named[0] == named[1]
    assert {key: result for (_, key), result in named[0].items()} == {k: v for k, v in after.items() if v is not None}
    assert "counts" in stored[0]
    ours.audited()


def test_rows_that_change_faster_than_their_partners_answer_have_the_same_state_live_and_of_history(
    instances: Instances, kafka: Kafka
) -> None:
    inputs = {name: kafka.create_topic(name, 1) for name in ("rows", "others")}
    at = (int(time.time()) - 3600) * 1000
    produce(kafka, inputs["others"], [(b"a", b"A", at)])
    produce(kafka, inputs["rows"], [(key.encode(), b"a1", at + 1_000) for key in HURRIED])
    live, ours = (Run(instances, inputs, name, INNER) for name in ("live", "bootstrapped"))
    instance = live.app.start()
    eventually(lambda: live.last() == dict.fromkeys(HURRIED, "a1/A"), "the first results")
    assert instance.close(30)
    changes = [(key, value) for key, values in HURRIED.items() for value in values]
    encoded = [(key.encode(), None if value is None else value.encode(), at + 2_000) for key, value in changes]
    produce(kafka, inputs["rows"], encoded)
    instance = live.app.start()
    kept = {"of the same partner": "a2/A", "back": "a1/A"}
    eventually(lambda: {key: value for key, value in live.last().items() if value is not None} == kept, "the last")
    topics = [each for each in kafka.admin.list_topics(timeout=30).topics if each.startswith(f"{live.app.name}-KTABLE")]
    live.app.processed(*inputs.values(), *(each for each in topics if not each.endswith("-changelog")))
    assert instance.close(30)
    live.audited()
    ours.app.bootstrap()
    ours.audited()
    instance = ours.app.start()
    eventually(lambda: instance.state is ClientState.RUNNING, "what was bootstrapped is restored")
    assert instance.close(30)
    stored = [live.app.stored(1), ours.app.stored()]
    assert stored[0] == stored[1]
    assert {key: entry.value for (_, key), entry in stored[0]["named"].items()} == kept
