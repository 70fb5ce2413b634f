"""One soak run: a broker, instances, input, faults, and what is found when all of it is over.

Called by the command line and by tests, on the main thread.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from application import ADVANCE_MS, COUNTS, FIRST, PAIRS, SECOND, STORES, TOTALS, WINDOW_MS, WINDOWS, Topics
from bucket import check_chains, check_points, read_bucket
from chaos import Chaos
from faults import Plan
from fleet import Fleet
from gaps import Gap, longest_gap
from lag_watch import LagWatch, status_of
from load import Load
from local_state import LocalStore, local_stores
from mover import Mover
from moves import MoveKind, MovesPlan, count_hand_overs
from testbed import Testbed, running_testbed
from topic_reader import Cluster, TopicReader, changes_of, inputs_of, updates_of
from verification import Evidence, Update, check_store, most, verify

#: For instances to be there at first, in seconds.
_TO_START = 40.0
#: For the next results once nothing is in the way any more, until there are all.
_TO_FINISH = 60.0
_TO_END_TRANSACTIONS = 20.0
_TO_READ = 60.0
_SUB_TOPOLOGIES = 2


@dataclass
class Report:
    """The report of a run; no ``findings`` is good."""

    plan: Plan
    findings: list[str] = field(default_factory=list)
    records: int = 0
    gap: Gap | None = None
    #: From the end of the last fault until all of the output was there, in seconds.
    caught_up_after: float = 0.0
    #: From SIGTERM to all instances until they had ended.
    ended_after: float = 0.0
    #: With remote state: tasks whose newest snapshot was restored and compared, and restores that began with one.
    snapshots_compared: int = 0
    begun_with_snapshots: int = 0
    #: Of a run whose instances come and go.
    hand_overs: Counter[MoveKind] = field(default_factory=Counter)
    lags_compared: int = 0
    largest_lag: int = 0


def run_plan(plan: Plan, directory: Path) -> Report:
    """Run a plan in an empty directory, which keeps logs, state and the broker's data."""
    directory.mkdir(parents=True)
    report = Report(plan)
    with running_testbed(directory, plan) as testbed:
        run = _Run(plan, testbed, directory, report)
        try:
            run.go()
        finally:
            run.close()
    return report


class _Run:
    """The steps of a run in their order; each leaves its findings in the report."""

    def __init__(self, plan: Plan, testbed: Testbed, directory: Path, report: Report) -> None:
        self._plan = plan
        self._report = report
        self._directory = directory
        self._broker = testbed.direct
        self._topics = Topics(f"soak-{plan.seed}", plan.partitions)
        self._tasks = _SUB_TOPOLOGIES * plan.partitions
        self._cluster = Cluster(self._broker, plan.partitions)
        self._cluster.create_topics(self._topics)
        self._fleet = Fleet(plan, self._topics, testbed, directory)
        self._testbed = testbed
        self._load = Load(self._broker, self._topics, plan.seed, plan.rate)
        self._watch = LagWatch(self._cluster, self._topics, self._fleet.instances.values())

    def go(self) -> None:
        self._fleet.start(self._plan.instances)
        if not self._started():
            return
        self._load.start()
        if not isinstance(self._plan, MovesPlan):  # it takes what many hand-overs need
            self._watch.start()
        chaos = self._chaos()
        chaos.run()
        self._found(self._load.stop())
        healed = time.monotonic()
        self._await_output(chaos)
        self._report.caught_up_after = time.monotonic() - healed
        self._watch.stop()
        self._found(most(self._watch.ledger.findings))
        self._report.lags_compared = self._watch.ledger.compared
        self._report.largest_lag = self._watch.ledger.largest_lag
        self._found(chaos.findings)
        asked = time.monotonic()
        self._found(self._fleet.end())
        self._report.ended_after = time.monotonic() - asked
        if self._transactions_ended():
            evidence = self._evidence()
            self._found(verify(evidence, exactly_once=not self._plan.repeats))
            self._found(self._local_state(evidence))
            if self._plan.snapshot_interval:
                self._found(self._snapshots(evidence))
            self._report.records = len(evidence.inputs)
            self._report.gap = longest_gap(evidence.sinks[FIRST], chaos.disturbances, chaos.began_ms)
            if isinstance(chaos, Mover):
                for chain in (FIRST, SECOND):
                    self._report.hand_overs += count_hand_overs(evidence.sinks[chain], chaos.ended)

    def _chaos(self) -> Chaos | Mover:
        if isinstance(self._plan, MovesPlan):
            return Mover(self._plan, self._fleet, self._topics, self._broker)
        return Chaos(self._plan, self._fleet, self._testbed, self._load)

    def close(self) -> None:
        """Ends everything, in any case."""
        self._fleet.kill()

    def _found(self, findings: Iterable[str]) -> None:
        self._report.findings += findings

    def _started(self) -> bool:
        """Says whether the instances run all tasks before anything happens to them."""
        give_up = time.monotonic() + _TO_START
        while (running := self._running_tasks()) < self._tasks:
            if time.monotonic() > give_up:
                words = "; ".join(f"{each}: {self._fleet[each].last_words()}" for each in self._plan.instances)
                self._found([f"{running} of {self._tasks} tasks ran {_TO_START:.0f} s after the start; {words}"])
                return False
            time.sleep(0.1)
        return True

    def _running_tasks(self) -> int:
        statuses = [status_of(self._fleet[name]) for name in self._plan.instances]
        tasks = [task for status in statuses if status is not None for task in status["tasks"]]
        return len({task["id"] for task in tasks if (task["role"], task["state"]) == ("active", "RUNNING")})

    def _await_output(self, chaos: Chaos | Mover) -> None:
        """Until all of the input shows in the output, or nothing more comes."""
        reader = TopicReader(self._broker, self._topics.sinks, self._topics.partitions)
        progress = _Progress(self._load.sent, self._topics)
        give_up = time.monotonic() + _TO_FINISH
        while missing := progress.missing(read := updates_of(reader.read_more(0.3))):
            chaos.look_after(self._fleet.instances.values())
            if read:
                give_up = time.monotonic() + _TO_FINISH
            if time.monotonic() > give_up:
                self._keep_statuses()
                self._found([f"no result came for {_TO_FINISH:.0f} s, and not all had come: {missing}"])
                break
        reader.close()

    def _keep_statuses(self) -> None:
        statuses = {name: status_of(each) for name, each in self._fleet.instances.items() if each.runs}
        (self._directory / "statuses.json").write_text(json.dumps(statuses, indent=1), encoding="utf-8")

    def _transactions_ended(self) -> bool:
        """Says whether readers of committed records reach the end of everything."""
        topics = [*self._topics.sinks, *self._topics.changelogs, self._topics.repartition]
        give_up = time.monotonic() + _TO_END_TRANSACTIONS
        while True:
            committed, written = (self._cluster.ends(topics, committed=only) for only in (True, False))
            hanging = {name: committed.get(name) for name, end in written.items() if committed.get(name) != end}
            if not hanging and len(written) == len(topics) * self._topics.partitions:
                return True
            if time.monotonic() > give_up:
                self._found([f"transactions did not end (docs/decisions/0007), committed up to: {hanging}"])
                return False
            time.sleep(0.2)

    def _evidence(self) -> Evidence:
        topics = self._topics
        reader = TopicReader(self._broker, [topics.source, *topics.sinks, *topics.changelogs], topics.partitions)
        if not reader.read_to_end(_TO_READ):
            self._found([f"the topics could not be read to their end within {_TO_READ:.0f} s"])
        evidence = Evidence(
            self._load.sent,
            inputs_of(reader.messages(topics.source)),
            {store: updates_of(reader.messages(topics.sink(store))) for store in STORES},
            {store: changes_of(store, reader.messages(topics.changelog(store))) for store in STORES},
            updates_of(reader.messages(topics.sink(PAIRS))),
        )
        reader.close()
        return evidence

    def _local_state(self, evidence: Evidence) -> list[str]:
        """Reads the local state of every instance that took part."""
        application = self._topics.application
        return most(
            finding
            for name, instance in self._fleet.instances.items()
            for local in local_stores(application, instance.state_directory)
            for finding in _compared(local, evidence, killed=name in self._plan.killed)
        )

    def _snapshots(self, evidence: Evidence) -> list[str]:
        """Reads the snapshots that instances with empty disks would begin with now."""
        application, source = self._topics.application, self._topics.source
        bucket = read_bucket(self._testbed.s3.config(), application, self._directory / "snapshots")
        report, plan = self._report, self._plan
        report.snapshots_compared = len(bucket.restored)
        report.begun_with_snapshots = sum(
            instance.log.read_text("utf-8", errors="replace").count("begins with snapshot")
            for instance in self._fleet.instances.values()
            if instance.log.exists()
        )
        found = check_chains(bucket.chains)
        found += check_points(bucket.restored, source, exactly_once=plan.exactly_once)
        found += most(
            finding for each in bucket.restored for store in each.stores for finding in _compared(store, evidence)
        )
        if len(bucket.restored) < self._tasks and not plan.damages_objects:
            found.append(f"{len(bucket.restored)} of {self._tasks} tasks have a snapshot that can be used")
        return found


def _compared(local: LocalStore, evidence: Evidence, *, killed: bool = False) -> list[str]:
    changelog = [each for each in evidence.changelogs[local.store] if each.partition == local.partition]
    return check_store(local.content, changelog, local.position, local.where, killed=killed)


class _Progress:
    """The progress of the output."""

    def __init__(self, sent: dict[str, int], topics: Topics) -> None:
        chains = [topics.sink(store) for store in (FIRST, SECOND)]
        self._wanted = {(chain, key): count - 1 for chain in chains for key, count in sent.items()}
        records = sum(sent.values())
        in_windows = records * (WINDOW_MS // ADVANCE_MS)
        self._due = {topics.sink(TOTALS): records, topics.sink(COUNTS): records, topics.sink(WINDOWS): in_windows}
        self._counted: dict[str, dict[str, int]] = {topic: {} for topic in self._due}

    def missing(self, updates: Iterable[Update]) -> str:
        """Returns what is still to come after these updates; ``""`` for nothing."""
        for update in updates:
            if update.topic in self._due:
                self._counted[update.topic][update.key] = update.body["cnt"]
            elif update.body["s"] == self._wanted.get((update.topic, update.body["k"])):
                del self._wanted[update.topic, update.body["k"]]
        if self._wanted:
            return f"the last records of {len(self._wanted)} keys, such as {sorted(self._wanted)[:5]}"
        counted = {topic: sum(counts.values()) for topic, counts in self._counted.items()}
        return ", ".join(
            f"{counted[topic]} of {due} in {topic}" for topic, due in self._due.items() if counted[topic] < due
        )
