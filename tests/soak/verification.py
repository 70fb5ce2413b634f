"""Checks that an application's output is what its input says, record by record.

Pure; the soak driver calls it when a run is over. Every check returns its findings as text, none if all is well. The
checks are those of Kafka's EosTest (every record, in order, nothing more) and SmokeTest (last value per key), with a
hash chain per key on top. Under at least once they are weaker, as far as repetitions require.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, zip_longest
from typing import NamedTuple, TypeAlias

from application import (
    COUNTED,
    FIRST,
    NO_TOTALS,
    SECOND,
    TOTALS,
    Json,
    add_to_totals,
    advance,
    counted_as,
    group_of,
    paired,
)

#: More findings of one kind say nothing new.
MOST = 5

Findings: TypeAlias = list[str]


class Update(NamedTuple):
    """One record of a topic the application wrote."""

    topic: str
    partition: int
    offset: int
    #: When the broker wrote it.
    at_ms: int
    key: str
    body: Json
    #: The run and the task that wrote it; ``""`` where the topic does not say.
    writer: str
    task: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset} by {self.writer or '?'}: {self.body}"


class Evidence(NamedTuple):
    """Everything a run left in its topics, partition by partition in the order of offsets."""

    #: How many records of each key the driver wrote.
    sent: Mapping[str, int]
    inputs: Sequence[Json]
    #: Per store its sink and its changelog.
    sinks: Mapping[str, Sequence[Update]]
    changelogs: Mapping[str, Sequence[Update]]
    #: The results of the join.
    pairs: Sequence[Update]


def verify(evidence: Evidence, *, exactly_once: bool) -> Findings:
    """All checks of topics."""
    inputs, sinks, changelogs = evidence.inputs, evidence.sinks, evidence.changelogs
    findings = check_input(inputs, evidence.sent)
    for chain in (FIRST, SECOND):
        findings += check_chain(inputs, sinks[chain], exactly_once=exactly_once)
        findings += check_changelog(sinks[chain], changelogs[chain], ("c", "h"))
        findings += check_writers(changelogs[chain])
    findings += check_totals(sinks[SECOND], sinks[TOTALS], exactly_once=exactly_once)
    findings += check_last_totals(inputs, sinks[TOTALS], exactly_once=exactly_once)
    findings += check_changelog(sinks[TOTALS], changelogs[TOTALS], tuple(NO_TOTALS))
    for store in COUNTED:
        findings += check_counts(store, inputs, sinks[store], exactly_once=exactly_once)
        findings += check_changelog(sinks[store], changelogs[store], ("cnt",))
    for updates in sinks.values():
        findings += check_writers(updates)
    return findings + check_pairs(inputs, evidence.pairs, exactly_once=exactly_once)


def check_input(inputs: Sequence[Json], sent: Mapping[str, int]) -> Findings:
    """The driver's own part: each key's records are in the topic once and in order."""
    sequences = {key: [record["s"] for record in records] for key, records in _per_key(inputs).items()}
    return most(
        f"the driver wrote {sent[key]} records of {key} and the input has {sequences.get(key, [])[:50]}"
        for key in sent
        if sequences.get(key, []) != list(range(sent[key]))
    )


def check_chain(inputs: Sequence[Json], updates: Sequence[Update], *, exactly_once: bool) -> Findings:
    """Every record went into its key's state once and in order, or at least once and never into an older state."""
    check = _exact_chain if exactly_once else _complete_chain
    expected, found = _per_key(inputs), _by_chain_key(updates)
    strangers = (f"{found[key][0]}: no such key in the input" for key in found.keys() - expected.keys())
    faults = (fault for key, records in expected.items() for fault in check(key, records, found.get(key, [])))
    return most(strangers) + most(faults)


def check_totals(second: Sequence[Update], totals: Sequence[Update], *, exactly_once: bool) -> Findings:
    """Each update of a group's totals follows from what its task passed on, in that order."""
    passed: dict[str, list[Update]] = defaultdict(list)
    for update in second:
        passed[update.key].append(update)
    told: dict[str, list[Update]] = defaultdict(list)
    for update in totals:
        told[update.key].append(update)
    if exactly_once:
        return most(fault for group in passed for fault in _exact_totals(group, passed[group], told[group]))
    return most(fault for group in told for fault in _growing_totals(told[group]))


def check_last_totals(inputs: Sequence[Json], totals: Sequence[Update], *, exactly_once: bool) -> Findings:
    """The last totals of each group are those of the input; repetitions may have added to count and sum."""
    truth: dict[str, Json] = {}
    for record in inputs:
        group = group_of(record["k"])
        truth[group] = add_to_totals(record, truth.get(group, NO_TOTALS))
    last = {update.key: update for update in totals}
    return most(
        f"totals of {group}: {last.get(group)}, the input says {expected}"
        for group, expected in truth.items()
        if group not in last or not _fits(last[group].body, expected, exactly_once)
    )


def check_counts(store: str, inputs: Sequence[Json], updates: Sequence[Update], *, exactly_once: bool) -> Findings:
    """Every record was counted once, and every count sent; repetitions may have added to them."""
    expected = Counter(name for record in inputs for name in counted_as(store, record))
    told: dict[str, list[int]] = defaultdict(list)
    for update in updates:
        told[update.key].append(update.body["cnt"])
    strangers = (f"{store} has {name}: {told[name][:5]}, which the input has not" for name in told.keys() - expected)
    wrong = (
        f"{store} of {name} were {told[name][:20]}, the last {told[name][-1:]}, and the input has {count}"
        for name, count in expected.items()
        if (told[name] != list(range(1, count + 1)) if exactly_once else max(told[name], default=0) < count)
    )
    return most(strangers) + most(wrong)


def check_pairs(inputs: Sequence[Json], pairs: Sequence[Update], *, exactly_once: bool) -> Findings:
    """Every two records that are to be joined were, once and in order; or at least once, and no others were."""
    expected = {key: list(paired(records)) for key, records in _per_key(inputs).items()}
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for update in pairs:
        found[update.key].append((update.body["u"], update.body["s"]))
    return most(
        f"pairs of {key}: the first that is not right is {_first_difference(due, found[key])}, of {len(due)} due"
        for key, due in expected.items()
        if (found[key] != due if exactly_once else set(found[key]) != set(due))
    )


def _first_difference(due: Sequence[tuple[int, int]], found: Sequence[tuple[int, int]]) -> str:
    for number, (wanted, got) in enumerate(zip_longest(due, found)):
        if wanted != got:
            return f"number {number}, {got} where {wanted} is due"
    return "none"


def check_changelog(sink: Sequence[Update], changelog: Sequence[Update], fields: Sequence[str]) -> Findings:
    """The changelog's last value of each key is the last one that was sent."""
    stored = {update.key: update for update in changelog}
    told = {update.body.get("k", update.key): update for update in sink}
    differing = (
        f"the state of {key} in its changelog is {stored.get(key)}, the last output {told.get(key)}"
        for key in sorted(stored.keys() | told.keys())
        if key not in stored
        or key not in told
        or any(stored[key].body[field] != told[key].body[field] for field in fields)
    )
    return most(differing)


def check_writers(updates: Iterable[Update]) -> Findings:
    """Once another run of a task has written, the ones before it write nothing any more: no zombies."""
    found: dict[tuple[str, int, str], str] = {}
    current: dict[tuple[str, int, str], Update] = {}
    successors: dict[tuple[str, int, str], dict[str, Update]] = defaultdict(dict)
    for update in updates:
        place = (update.topic, update.partition, update.task)
        before = current.get(place)
        if before is not None and before.writer != update.writer:
            successors[place][before.writer] = update
        if (successor := successors[place].get(update.writer)) is not None:
            found.setdefault(place, f"{update} is a zombie's, after its successor's {successor}")
        current[place] = update
    return most(found.values())


def check_store(
    content: Mapping[str, Json], changelog: Sequence[Update], position: int, where: str, *, killed: bool = False
) -> Findings:
    """A local store holds exactly what its changelog says up to the store's position.

    It may hold some of the records that follow: a position that is too low only costs a replay of records that are
    there already; a position that is too high loses records. It is too low after offsets without a committed record
    that came while an instance took a store over, as no instance counts them
    (docs/decisions/0005-changelog-offsets.md). So the position still counts every record that the store holds.
    The store of an instance that was ``killed`` may hold any of the records that follow: of a flush, the entries reach
    the disk before the positions. ``changelog`` is one partition's, from its beginning.
    """
    counted = [update for update in changelog if update.offset < position]
    expected = {update.key: update.body for update in counted}
    held = dict(expected)
    for update in changelog[len(counted) : None if killed else position]:
        if content == held:
            break
        held[update.key] = update.body
    if content == held:
        return []
    return most(
        f"{where} holds {content.get(key)} for {key}, its changelog up to {position} says {expected.get(key)}"
        for key in sorted(content.keys() | expected.keys())
        if content.get(key) != expected.get(key)
    )


def _exact_chain(key: str, records: Sequence[Json], updates: Sequence[Update]) -> Iterator[str]:
    due: list[Json] = []
    state: Json | None = None
    for record in records:
        state, update = advance(state, record)
        due.append(update)
    yield from _exact(f"{key} has", due, updates)


def _exact(subject: str, due: Sequence[Json], updates: Sequence[Update]) -> Iterator[str]:
    """The first update that is not the due one; the updates after it have to be wrong too."""
    for number, expected in enumerate(due):
        if number == len(updates):
            yield f"lost: {subject} {number} of {len(due)} updates, the next would be {expected}"
            return
        if updates[number].body != expected:
            yield f"{updates[number]} where {expected} is due"
            return
    if len(updates) > len(due):
        yield f"one too many: {updates[len(due)]}"


def _complete_chain(key: str, records: Sequence[Json], updates: Sequence[Update]) -> Iterator[str]:
    missing = {record["s"] for record in records} - {update.body["s"] for update in updates}
    if missing:
        yield f"lost: {key} has no update for records {sorted(missing)[:20]} of {len(records)}"
    numbers = {record["s"]: record["n"] for record in records}
    before: Update | None = None
    for update in updates:
        body = update.body
        if body["s"] not in numbers or body["n"] != numbers[body["s"]]:
            yield f"{update} is no record of the input"
        if body["s"] > body["b"] + 1 or body["c"] < body["s"] + 1:
            yield f"{update} met a state that was too old: it had seen up to {body['b']}"
        if before is not None and before.writer == update.writer and not _follows(before.body, body):
            yield f"{update} does not follow {before}"
        before = update
    if before is not None and max(before.body["s"], before.body["b"]) != len(records) - 1:
        yield f"the last update of {key} is {before}, the input ends with record {len(records) - 1}"


def _follows(before: Json, body: Json) -> bool:
    """Says whether one task's run went from one update to the next."""
    state = {"c": before["c"], "h": before["h"], "s": max(before["s"], before["b"])}
    return advance(state, body)[1] == body


def _exact_totals(group: str, passed: Sequence[Update], told: Sequence[Update]) -> Iterator[str]:
    totals = accumulate(passed, lambda totals, update: add_to_totals(update.body, totals), initial=NO_TOTALS)
    yield from _exact(f"the totals of {group} have", list(totals)[1:], told)


def _growing_totals(told: Sequence[Update]) -> Iterator[str]:
    """Within one task's run each update adds one record."""
    for before, update in pairwise(told):
        if before.writer == update.writer and before.body["cnt"] + 1 != update.body["cnt"]:
            yield f"{update} does not follow {before}"


def _fits(found: Json, expected: Json, exactly_once: bool) -> bool:
    if exactly_once:
        return found == expected
    extremes = all(found[name] == expected[name] for name in ("min", "max"))
    return extremes and all(found[name] >= expected[name] for name in ("cnt", "sum"))


def _per_key(inputs: Iterable[Json]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = defaultdict(list)
    for record in inputs:
        found[record["k"]].append(record)
    return found


def _by_chain_key(updates: Iterable[Update]) -> dict[str, list[Update]]:
    found: dict[str, list[Update]] = defaultdict(list)
    for update in updates:
        found[update.body["k"]].append(update)
    return found


def most(findings: Iterable[str]) -> Findings:
    """The first few, and how many more there are."""
    found = list(findings)
    more = len(found) - MOST
    return [*found[:MOST], f"... and {more} more of this kind"] if more > 0 else found
