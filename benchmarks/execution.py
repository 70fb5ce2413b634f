"""One run of one case: start its programs, wait, check what they made, clean up.

Called by ``run.py``.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmarks import launch, verify
from benchmarks.cases import PLAINTEXT, Case
from benchmarks.inputs import Input, restoring
from benchmarks.measure import Mark, Measurement, Program, measure, run_to_end
from benchmarks.object_store import ObjectStore
from benchmarks.systems.job import Job
from benchmarks.topics import PARTITIONS, PREFIX, Topics
from benchmarks.workloads import STEADY, first_messages

#: A program that needs longer has failed.
_TIMEOUT_SECONDS = 1_200.0


class Executor:
    """Runs cases on one broker; ``directory`` takes state and logs, ``commands`` start each system's program."""

    def __init__(
        self,
        topics: Topics,
        directory: Path,
        commands: dict[str, list[str]],
        objects: ObjectStore | None,
        connections: dict[str, dict[str, str]],
    ) -> None:
        """``connections``: the properties by which each system connects where a case is over a secured connection."""
        self._topics = topics
        self._directory = directory
        self._commands = commands
        self._objects = objects
        self._connections = connections
        #: The objects that every run from snapshots finds in the object store.
        self._snapshots: set[str] = set()

    def prepare(self, cases: Sequence[Case], given: Input) -> None:
        """Before the first run of a workload: take the snapshots that runs begin with, then write what comes later."""
        if not given.tail:
            return
        workload = cases[0].workload
        if any(case.remote for case in cases):
            assert self._objects is not None
            case = next(case for case in cases if case.remote)
            self._start(replace(case, system="streamsapp"), [self._restore_job(case, given, "snapshot")])
            self._snapshots = self._objects.keys(restoring(workload))
            shutil.rmtree(self._directory / "state")
        messages = first_messages(workload, given.records)
        written = self._topics.fill(given.topic, islice(messages, given.records - given.tail, None))
        verify.check_written(given.topic, written, given.records)

    def run(self, case: Case, inputs: list[Input], number: int) -> Measurement:
        """Measure one run; raises unless its result is right."""
        shutil.rmtree(self._directory / "state", ignore_errors=True)
        try:
            if case.workload.tail:
                return self._come_up(case, inputs[0])
            if case.workload.changelog:
                return self._restore(case, inputs[0], number)
            return self._process(case, inputs, number)
        finally:
            shutil.rmtree(self._directory / "state", ignore_errors=True)

    def _process(self, case: Case, inputs: list[Input], number: int) -> Measurement:
        application = f"{PREFIX}{case.workload.name}-{case.system}-{case.variant}-{case.over}-{case.client}-{number}"
        jobs = [self._job(case, each, f"{application}-{instance}") for instance, each in enumerate(inputs)]
        for job in jobs:
            self._topics.create(job.output, PARTITIONS // case.instances)
        marks = self._start(case, jobs)
        for job, each in zip(jobs, inputs, strict=True):
            self._check(case, job, each)
        self._topics.remove(application)
        if self._objects is not None:
            self._objects.keep(application, set())
        return measure(marks, "LAST" if case.workload is STEADY else "CLOSED")

    def _restore(self, case: Case, log: Input, number: int) -> Measurement:
        """Restore the store from its changelog, close, and start once more to count the entries that were kept.

        Quix writes changelogs in a form of its own, so before its first run it writes one from the same records.
        """
        if case.system == "quix":
            job = self._job(case, log, f"{restoring(case.workload)}-quix")
            if number == 1:
                self._start(case, [replace(job, workload="w4-fill")])
                shutil.rmtree(self._directory / "state")
        else:
            job = self._restore_job(case, log, case.workload.name)
        marks = self._start(case, [job])
        [checked] = self._start(case, [replace(job, workload="w4-check")])
        verify.check_store(case.system, checked["STORE"].count, log.expected)
        return measure(marks)

    def _come_up(self, case: Case, log: Input) -> Measurement:
        """From an empty disk until all tasks run, with a snapshot or without; then count the entries that were kept."""
        if case.remote:
            assert self._objects is not None
            self._objects.keep(restoring(case.workload), self._snapshots)
        job = self._restore_job(case, log, "restore")
        marks = self._start(case, [job])
        if case.system != "raw-download":
            [checked] = self._start(case, [replace(job, workload="w4-check")])
            verify.check_store(case.system, checked["STORE"].count, log.expected)
        return measure(marks, "RUNNING")

    def _restore_job(self, case: Case, log: Input, workload: str) -> Job:
        """The changelog belongs to an application whose source is empty."""
        application = restoring(case.workload)
        job = replace(self._job(case, log, application), workload=workload, input=f"{application}-source")
        self._topics.ensure(job.input)
        return job

    def _check(self, case: Case, job: Job, given: Input) -> None:
        found = verify.check_output(self._topics, job.output, case.workload.found(), given.expected)
        if case.every_update:
            verify.check_every_update(job.output, found, given.records * case.workload.updates_per_record)
        for topic in filter(None, (job.input, job.right) if case.system != "pyspark" else ()):  # it has no group
            verify.check_committed(self._topics, job.applicationId, topic)

    def _start(self, case: Case, jobs: list[Job]) -> list[dict[str, Mark]]:
        """Run one program per job side by side; their error output goes to a log named after the job."""
        environment = launch.environment()
        programs = []
        for job in jobs:
            Path(job.stateDir).mkdir(parents=True, exist_ok=True)
            log = self._directory / f"{job.applicationId}-{job.workload}.log"
            programs.append(Program([*self._commands[case.system], job.to_json()], environment, log))
        return run_to_end(programs, _TIMEOUT_SECONDS)

    def _job(self, case: Case, given: Input, application: str) -> Job:
        return Job(
            workload=case.workload.name,
            variant=case.variant,
            applicationId=application,
            bootstrapServers=self._topics.bootstrap_servers,
            input=given.topic,
            output=f"{application}-out",
            records=given.records,
            stateDir=str(self._directory / "state" / application),
            remoteState=self._objects.settings if case.remote and self._objects is not None else {},
            right=given.right,
            connection={} if case.over == PLAINTEXT else self._connections[case.system],
            client=case.client,
        )
