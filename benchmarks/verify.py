"""Checks that a run did the whole work and did it right; a fast wrong answer is no figure.

Called by ``run.py`` after each run, outside the measured time.
"""

from __future__ import annotations

from benchmarks.topics import Topics
from benchmarks.workloads import Outcome, Reckoning


class WrongResultError(Exception):
    """A system gave another result than the workload asks for."""


def check_output(topics: Topics, topic: str, reckoning: Reckoning, expected: Outcome) -> int:
    """The output topic holds the expected result; how many records with a value it took to say so."""
    records = 0
    for message in topics.read(topic):
        reckoning.add(message)
        records += message.value is not None
    if (found := reckoning.outcome()) != expected:
        raise WrongResultError(f"{topic} holds {found}, the input asks for {expected}")
    return records


def check_every_update(topic: str, found: int, updates: int) -> None:
    """Every single update was written, none held back or merged."""
    if found != updates:
        raise WrongResultError(f"{topic} holds {found} records, one per update would be {updates}")


def check_written(topic: str, found: int, expected: int) -> None:
    """The topic holds as many records as were meant for it."""
    if found != expected:
        raise WrongResultError(f"{topic} holds {found} records, {expected} were written")


def check_store(system: str, entries: int, expected: Outcome) -> None:
    """The restored store holds every key of the changelog."""
    if entries != expected.items:
        raise WrongResultError(f"the store that {system} restored holds {entries} entries, not {expected.items}")


def check_committed(topics: Topics, group: str, topic: str) -> None:
    """The application committed its input to the end."""
    ends = {partition: end for partition, (_, end) in topics.offsets(topic).items() if end > 0}
    committed = topics.committed(group, topic)
    if missing := {partition: end for partition, end in ends.items() if committed[partition] != end}:
        raise WrongResultError(f"{group} committed {committed} of {topic}, which ends at {missing}")
