"""Each check of the soak driver finds the fault it is there for, and nothing where all is well."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from application import (
    COUNTED,
    FIRST,
    NO_TOTALS,
    PAIRS,
    SECOND,
    STORES,
    TASK,
    TOTALS,
    WRITER,
    Json,
    add_to_totals,
    advance,
    build,
    counted_as,
    group_of,
    key_name,
    paired,
)
from streamsapp import Record, Serdes
from streamsapp.testing import TopologyTestDriver
from verification import MOST, Evidence, Update, check_store, check_writers, verify


@dataclass
class Written:
    """The output of an application without fault for some input, ready to be damaged."""

    inputs: list[Json]
    sinks: dict[str, list[Update]] = field(default_factory=lambda: {store: [] for store in STORES})
    changelogs: dict[str, list[Update]] = field(default_factory=lambda: {store: [] for store in STORES})
    pairs: list[Update] = field(default_factory=list)
    states: dict[tuple[str, str], Json] = field(default_factory=dict)

    def process(self, record: Json, writer: str = "a.1") -> None:
        for store in (FIRST, SECOND):
            self.advance(store, record, f"{writer}.{store}")
        totals = add_to_totals(record, self.states.get((TOTALS, group_of(record["k"])), NO_TOTALS))
        self.add_totals(group_of(record["k"]), totals, f"{writer}.{SECOND}")
        for store in COUNTED:
            for name in counted_as(store, record):
                self.count(store, name, f"{writer}.{store}")

    def count(self, store: str, name: str, writer: str) -> None:
        count = self.states.get((store, name), {"cnt": 0})["cnt"] + 1
        self.states[store, name] = {"cnt": count}
        self.write(self.sinks[store], store, name, {"cnt": count}, writer)
        self.write(self.changelogs[store], f"{store}-changelog", name, {"cnt": count}, "")

    def advance(self, store: str, record: Json, writer: str) -> None:
        state, update = advance(self.states.get((store, record["k"])), record)
        self.states[store, record["k"]] = state
        key = record["k"] if store == FIRST else group_of(record["k"])
        self.write(self.sinks[store], store, key, update, writer)
        self.write(self.changelogs[store], f"{store}-changelog", record["k"], {**state, "w": writer}, writer)

    def add_totals(self, group: str, totals: Json, writer: str) -> None:
        self.states[TOTALS, group] = totals
        self.write(self.sinks[TOTALS], TOTALS, group, totals, writer)
        self.write(self.changelogs[TOTALS], f"{TOTALS}-changelog", group, totals, "")

    def write(self, topic: list[Update], name: str, key: str, body: Json, writer: str) -> None:
        topic.append(Update(name, 0, len(topic), 0, key, body, writer, "0_0"))

    def join(self) -> None:
        for key in {record["k"] for record in self.inputs}:
            for update, other in paired(record for record in self.inputs if record["k"] == key):
                self.write(self.pairs, PAIRS, key, {"k": key, "u": update, "s": other}, "")

    def findings(self, *, exactly_once: bool) -> list[str]:
        sent = Counter(record["k"] for record in self.inputs)
        evidence = Evidence(sent, self.inputs, self.sinks, self.changelogs, self.pairs)
        return verify(evidence, exactly_once=exactly_once)


def some_input(number: int = 60) -> list[Json]:
    chosen, sent = random.Random(5), Counter[str]()
    records: list[Json] = []
    for _ in range(number):
        key = key_name(chosen.choice((1, 2, 41)))
        records.append({"k": key, "s": sent[key], "n": chosen.randrange(1000), "t": 1_000_000 + 30 * len(records)})
        sent[key] += 1
    return records


def processed(inputs: list[Json]) -> Written:
    written = Written(inputs)
    for record in inputs:
        written.process(record)
    written.join()
    return written


@pytest.fixture
def written() -> Written:
    return processed(some_input())


@pytest.fixture(params=[True, False], ids=["exactly_once", "at_least_once"])
def exactly_once(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_finds_nothing_in_what_the_real_topology_writes(exactly_once: bool) -> None:
    inputs, text, json = some_input(), Serdes.string(), Serdes.json()
    with TopologyTestDriver(build("soak", "a.1")) as driver:
        source = driver.create_input_topic("soak-input", text, json)
        for record in inputs:
            source.pipe_input(record["k"], record, record["t"])
        sinks = {
            store: [
                update_of(store, offset, record)
                for offset, record in enumerate(driver.create_output_topic(f"soak-{store}", text, json).read_records())
            ]
            for store in STORES
        }
        pairs = [
            update_of(PAIRS, offset, record)
            for offset, record in enumerate(driver.create_output_topic(f"soak-{PAIRS}", text, json).read_records())
        ]
    changelogs = processed(inputs).changelogs

    evidence = Evidence(Counter(record["k"] for record in inputs), inputs, sinks, changelogs, pairs)

    assert len(sinks[TOTALS]) == len(inputs)
    assert len(pairs) > len(inputs)
    assert verify(evidence, exactly_once=exactly_once) == []


def update_of(store: str, offset: int, record: Record) -> Update:
    headers = dict(record.headers)
    writer, task = (headers.get(name) or b"" for name in (WRITER, TASK))
    return Update(store, 0, offset, record.timestamp, record.key, record.value, writer.decode(), task.decode())


def test_finds_nothing_where_nothing_is_wrong(written: Written, exactly_once: bool) -> None:
    assert written.findings(exactly_once=exactly_once) == []


@pytest.mark.parametrize("store", [FIRST, SECOND])
def test_finds_a_lost_update(written: Written, store: str, exactly_once: bool) -> None:
    del written.sinks[store][30]

    assert written.findings(exactly_once=exactly_once)


@pytest.mark.parametrize("store", [FIRST, SECOND])
def test_finds_a_lost_last_update(written: Written, store: str, exactly_once: bool) -> None:
    lost = written.sinks[store].pop()

    findings = written.findings(exactly_once=exactly_once)

    assert any(finding.startswith(f"lost: {lost.body['k']}") for finding in findings)


@pytest.mark.parametrize("store", STORES)
def test_finds_a_doubled_update_under_exactly_once(written: Written, store: str) -> None:
    written.sinks[store].append(written.sinks[store][-1])

    assert written.findings(exactly_once=True)


@pytest.mark.parametrize("store", STORES)
def test_finds_two_updates_that_changed_places_under_exactly_once(written: Written, store: str) -> None:
    sink = written.sinks[store]
    at = [number for number, update in enumerate(sink) if update.key == sink[0].key]
    sink[at[3]], sink[at[4]] = sink[at[4]], sink[at[3]]

    assert written.findings(exactly_once=True)


def test_allows_repetitions_under_at_least_once_only() -> None:
    inputs = some_input()
    written = Written(inputs)
    for record in inputs[:40]:
        written.process(record)
    for record in inputs[35:]:
        written.process(record, "b.1")
    written.join()

    assert written.findings(exactly_once=False) == []
    assert written.findings(exactly_once=True)


@pytest.mark.parametrize("store", [FIRST, SECOND])
def test_finds_a_state_that_is_older_than_what_was_committed(store: str) -> None:
    """A successor starts from a changelog that lacks the last records, and its numbers show it."""
    inputs = some_input()
    written = Written(inputs)
    for record in inputs[:40]:
        written.process(record)
    key = inputs[40]["k"]
    before = [update.body for update in written.sinks[store] if update.body["k"] == key]
    written.states[store, key] = {"c": before[-2]["c"], "h": before[-2]["h"], "s": before[-2]["s"]}
    for record in inputs[40:]:
        written.process(record, "b.1")

    findings = written.findings(exactly_once=False)

    assert any("met a state that was too old" in finding for finding in findings)
    assert written.findings(exactly_once=True)


@pytest.mark.parametrize("store", COUNTED)
def test_finds_a_count_that_lacks_a_record(written: Written, store: str, exactly_once: bool) -> None:
    last = written.sinks[store].pop()

    findings = written.findings(exactly_once=exactly_once)

    assert any(finding.startswith(f"{store} of {last.key} were") for finding in findings)


def test_finds_a_pair_that_is_missing_and_one_that_is_not_due(written: Written, exactly_once: bool) -> None:
    lost = written.pairs.pop(20)

    assert any(finding.startswith("pairs of") for finding in written.findings(exactly_once=exactly_once))

    written.pairs.insert(20, lost)
    written.pairs.append(lost._replace(body={**lost.body, "u": 1}))
    assert any(finding.startswith("pairs of") for finding in written.findings(exactly_once=exactly_once))


def test_a_pair_may_come_twice_or_late_at_least_once_only(written: Written) -> None:
    written.pairs.append(written.pairs[3])

    assert written.findings(exactly_once=False) == []
    assert any(finding.startswith("pairs of") for finding in written.findings(exactly_once=True))


@pytest.mark.parametrize("store", COUNTED)
def test_finds_a_count_of_what_is_not_in_the_input(written: Written, store: str, exactly_once: bool) -> None:
    written.count(store, "nobody", "a.1")

    findings = written.findings(exactly_once=exactly_once)

    assert any("which the input has not" in finding for finding in findings)


def test_finds_a_state_that_was_damaged_within_a_run(written: Written, exactly_once: bool) -> None:
    damaged = written.sinks[FIRST][30]
    written.sinks[FIRST][30] = damaged._replace(body={**damaged.body, "h": "0" * 16})

    assert written.findings(exactly_once=exactly_once)


def test_finds_an_update_of_a_record_that_was_never_sent(written: Written, exactly_once: bool) -> None:
    written.process({"k": key_name(3), "s": 0, "n": 1, "t": 1})

    assert any("no such key in the input" in finding for finding in written.findings(exactly_once=exactly_once))


def test_finds_totals_that_do_not_follow(written: Written, exactly_once: bool) -> None:
    damaged = written.sinks[TOTALS][-1]
    written.sinks[TOTALS][-1] = damaged._replace(body={**damaged.body, "max": damaged.body["max"] + 1})

    assert any("totals of" in finding for finding in written.findings(exactly_once=exactly_once))


def test_finds_totals_that_skip_a_record_within_a_run(written: Written) -> None:
    del written.sinks[TOTALS][20]

    assert any("does not follow" in finding for finding in written.findings(exactly_once=False))


@pytest.mark.parametrize("store", STORES)
def test_finds_a_changelog_that_lacks_the_last_state(written: Written, store: str, exactly_once: bool) -> None:
    written.changelogs[store].pop()

    assert any("in its changelog" in finding for finding in written.findings(exactly_once=exactly_once))


def test_finds_an_input_that_the_driver_itself_damaged(written: Written, exactly_once: bool) -> None:
    written.inputs.insert(10, written.inputs[10])

    assert any("the driver wrote" in finding for finding in written.findings(exactly_once=exactly_once))


def runs(*writers: str) -> list[Update]:
    return [Update("out", 0, at, 0, "k", {}, writer, "0_0") for at, writer in enumerate(writers)]


@pytest.mark.parametrize("writers", ["aaa", "aabb", "abc"])
def test_lets_one_run_of_a_task_follow_another(writers: str) -> None:
    assert check_writers(runs(*writers)) == []


@pytest.mark.parametrize("writers", ["aba", "aabba", "abca", "abcb"])
def test_finds_a_zombie(writers: str) -> None:
    assert len(check_writers(runs(*writers))) == 1


def test_finds_a_zombies_write_to_a_changelog(written: Written, exactly_once: bool) -> None:
    changelog = written.changelogs[FIRST]
    changelog[-2] = changelog[-2]._replace(writer="b.1.1")

    assert any("is a zombie's" in finding for finding in written.findings(exactly_once=exactly_once))


def test_tasks_that_write_to_one_partition_are_not_taken_for_zombies() -> None:
    updates = [update._replace(task=f"0_{at % 2}") for at, update in enumerate(runs(*"abab"))]

    assert check_writers(updates) == []


def test_a_store_is_held_against_its_changelog_up_to_its_position() -> None:
    changelog = [Update("log", 0, at, 0, key, {"c": at}, "", "") for at, key in enumerate("xyx")]

    assert check_store({"x": {"c": 0}, "y": {"c": 1}}, changelog, 2, "here") == []
    assert check_store({"x": {"c": 2}, "y": {"c": 1}}, changelog, 3, "here") == []
    assert len(check_store({"x": {"c": 2}, "y": {"c": 1}}, changelog, 2, "here")) == 1
    assert len(check_store({"x": {"c": 0}}, changelog, 2, "here")) == 1
    assert len(check_store({"x": {"c": 2}, "y": {"c": 1}, "z": {"c": 9}}, changelog, 3, "here")) == 1


@pytest.mark.parametrize(
    ("position", "held", "right"),
    [
        pytest.param(4, 3, True, id="exact"),
        pytest.param(3, 3, True, id="without the control record"),
        pytest.param(5, 3, False, id="too high"),
        pytest.param(2, 3, False, id="without a record"),
        pytest.param(0, 4, False, id="without anything"),
    ],
)
def test_a_position_counts_each_record_of_a_store_and_may_leave_out_control_records(
    position: int, held: int, right: bool
) -> None:
    # At offset 2 is the control record that ends the former owner's transaction.
    changelog = [Update("log", 0, at, 0, "x", {"c": at}, "", "") for at in (0, 1, 3, 4)]

    findings = check_store({"x": changelog[held - 1].body}, changelog, position, "here")

    assert len(findings) == (0 if right else 1)


def test_a_store_that_holds_a_record_without_the_one_before_is_found_though_its_position_may_be_too_low() -> None:
    changelog = [Update("log", 0, at, 0, key, {"c": at}, "", "") for at, key in ((0, "x"), (2, "y"), (4, "x"))]

    assert check_store({"x": {"c": 4}, "y": {"c": 2}}, changelog, 4, "here") == []
    assert len(check_store({"x": {"c": 4}}, changelog, 4, "here")) == 2


def test_many_findings_of_a_kind_are_counted_not_listed(written: Written) -> None:
    content = {key_name(number): {"c": 1} for number in range(MOST + 3)}

    findings = check_store(content, [], 0, "here")

    assert len(findings) == MOST + 1
    assert findings[-1] == "... and 3 more of this kind"


def test_the_store_of_a_killed_instance_may_be_ahead_of_its_position_and_holds_nothing_else() -> None:
    changelog = [Update("log", 0, at, 0, key, {"c": at}, "", "") for at, key in enumerate("xyxzz")]
    ahead = {"x": {"c": 2}, "y": {"c": 1}, "z": {"c": 3}}

    assert len(check_store(ahead, changelog, 1, "here")) == 3
    assert check_store(ahead, changelog, 1, "here", killed=True) == []
    assert check_store({"x": {"c": 2}}, changelog, 1, "here", killed=True)
    assert check_store({**ahead, "z": {"c": 9}}, changelog, 1, "here", killed=True)
    assert check_store({"x": {"c": 0}}, changelog, 2, "here", killed=True)
