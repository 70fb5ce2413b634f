"""The gate decides whether a pod may be taken away now, and if not, why. It is the one rule that rolling restart,
disruption budget, scaling and status share. Pure: it is given an observation, and ages are those at the moment of it.

A pod may go when every task with stores that runs on it can go on elsewhere at once, or soon: another ready pod follows
the task closely enough and was seen to a moment ago, or there is a snapshot that is restored quickly enough. A fact
that is not known, too old, contradictory, or in motion (a group that rebalances, a pod that is not ready) is unsafe.

Called by ``plan``, once per reconcile. ``docs/decisions/0013-restart-safety.md`` has the exact guarantee.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from streamsapp.manifest.model import RolloutSpec
from streamsapp_operator.gap_prediction import GapPredictor
from streamsapp_operator.model.observed_state import JOINING, ObservedState, PodReport, PodSeen, ReportedRole
from streamsapp_operator.model.status import Blocker, ExpectedGap, Restart
from streamsapp_operator.takeover import RUNNING, SEVERITY, Takeover, Takeovers, leading_word

#: Reasons that concern one task on one pod, not of something in motion.
UNCOVERED = frozenset(SEVERITY[SEVERITY.index("NoStandby") :])
#: The reason why an executor is joining, and where to look if it stays so.
_OF_JOINING = ", as it took part in no batch yet; if that lasts for two batches, see its log and the driver's"
#: More blockers than this are only counted.
LISTED = 20
#: More missing tasks than this are not even counted: how many there are is a pod's word, or the status'.
COUNTED = 1000
#: A container that ended so often does not come back by itself.
CRASHES = 3
#: Seconds that a container which was started again has for coming back, its imports included.
COMING_BACK_SECONDS = 60.0
#: Seconds after which it would be known that a container passes its startup probe.
PROBED_SECONDS = 5.0
#: Seconds after which a container that did not pass its startup probe is not in the group, whichever pod has its tasks.
STARTING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Waiver:
    """The blockers that the change of a topology excuses."""

    #: Sub-topologies that only the pods of a new revision know: before the others are of that revision too, no pod can
    #: follow their tasks. That must not keep the others from being restarted.
    newcomers: frozenset[str] = frozenset()
    #: Sub-topologies of the revision to which all pods are to come; the tasks of others go away with the pods that know
    #: them. ``None``: not known.
    staying: frozenset[str] | None = None

    def waives(self, blocker: Blocker, *, other: bool) -> bool:
        """Says whether a blocker is excused; ``other`` says that it is about another pod than the one that is to be
        taken."""
        subtopology = (blocker.task or "").rpartition("_")[0]
        leaves = self.staying is not None and subtopology not in self.staying
        return bool(subtopology) and (leaves or (other and subtopology in self.newcomers))


class Gate:
    """Applies the rule to one observation of an application."""

    def __init__(
        self,
        observed: ObservedState,
        rollout: RolloutSpec,
        expected: Iterable[str] = (),
        gaps: GapPredictor | None = None,
    ) -> None:
        """Takes in ``expected`` the tasks with stores that are known to exist: a task that no pod runs is somewhere on
        its way. They are gone through more than once, and not to the end if very many are missing."""
        self._observed = observed
        self._rollout = rollout
        self._expected = expected
        self._gaps = gaps or GapPredictor()
        self.covers = Takeovers(observed, rollout, self._gaps)
        found = [*self._application(), *(it for pod in observed.pods for it in self.blockers_of(pod))]
        #: All of them, the worst first.
        self.blockers = sorted(found, key=lambda it: (SEVERITY.index(leading_word(it)), it.pod, it.task or ""))

    def verdict(self) -> Restart:
        """Says whether any one pod may be taken away, whichever it is."""
        listed = tuple(self.blockers[:LISTED])
        return Restart(safe=not self.blockers, blockers=listed, more_blockers=len(self.blockers) - len(listed))

    def allows(self, pod: PodSeen, waiver: Waiver) -> bool:
        """Says whether this pod may be taken away: the application is safe, but for blockers that are waived."""
        return all(
            leading_word(it) in UNCOVERED and waiver.waives(it, other=it.pod != pod.name) for it in self.blockers
        )

    def blockers_of(self, pod: PodSeen) -> list[Blocker]:
        """Returns why this pod must not be taken away now; empty if it may, as far as it is concerned."""
        unknown = self._unknown(pod)
        return [unknown] if unknown is not None else [*self._unsettled(pod), *self.uncovered(pod)]

    def uncovered(self, pod: PodSeen) -> list[Blocker]:
        """Returns the tasks that run on this pod and could not go on elsewhere."""
        return [it for it in self.covers.of(pod) if isinstance(it, Blocker)]

    def predicted(self, pod: PodSeen) -> ExpectedGap | None:
        """Returns for how long the worst of its tasks will stand still when this pod is taken away: the others share
        the stores that must be restored. ``None`` if it cannot be said."""
        found = self.covers.of(pod)
        gaps = [it.gap for it in found if isinstance(it, Takeover)]
        if pod.report is None or len(gaps) < len(found):
            return None
        restores = [it.work_seconds for it in gaps if it.kind == "snapshot"]
        if restores:
            heirs = sum(it.name != pod.name and self.covers.may_take_over(it) for it in self._observed.pods)
            return self._gaps.predict("snapshot", max(*restores, sum(restores) / max(1, heirs)))
        if gaps:
            return max(gaps, key=lambda it: it.seconds)
        runs = any(task.role is ReportedRole.ACTIVE for task in pod.report.tasks)
        return self._gaps.predict("stateless" if runs else "none")

    def predicted_seconds(self, pod: PodSeen) -> float | None:
        """Returns the seconds of ``predicted``."""
        found = self.predicted(pod)
        return None if found is None else found.seconds

    def all_run(self) -> bool:
        """Says whether every task that is known to exist runs on exactly one pod."""
        states = [
            task.state.upper() == RUNNING
            for pod in self._observed.pods
            for task in (pod.report.tasks if pod.report else ())
            if task.role is ReportedRole.ACTIVE
        ]
        once = all(len(pods) == 1 for pods in self.covers.owners.values())
        return once and all(states) and not any(True for _ in self._missing())

    def good_until(self) -> float:
        """Returns until when a verdict that says safe may be acted upon: then the first of the observations it relies
        on is older than allowed."""
        covers = [it.until for pod in self._observed.pods for it in self.covers.of(pod) if isinstance(it, Takeover)]
        fetched = [pod.report.fetched_at for pod in self._observed.pods if pod.report]
        return min([min([self._observed.at, *fetched]) + self._rollout.max_observation_age_seconds, *covers])

    def holds_nothing(self, pod: PodSeen, waiver: Waiver) -> bool:
        """Says whether a pod is broken and has, provably, nothing to lose: its container does not run, or never
        answered, or it says that it runs no task that could not go on elsewhere. A pod that works, whatever Kubernetes
        calls it, goes only if all others work, too; a pod that comes back to a warm disk is not broken. One whose user
        code hangs commits nothing, so its tasks do not even go on where they are."""
        if pod.ready or pod.terminating:
            return False
        if pod.report is not None and pod.report.hanging and self.covers.is_fresh(pod.report):
            return True
        if self._comes_back(pod):
            return False
        if self._works(pod):
            return self._is_spared(pod, waiver)
        if pod.report is None:
            ended = pod.phase in {"Pending", "Failed", "Succeeded"} or pod.waiting_reason is not None
            return ended or self._never_answered(pod)
        if self._all_are_refused():
            return True
        if not self.covers.is_fresh(pod.report) or not (self._tells_all(pod, pod.report) or self.all_run()):
            return False
        lost = [it for it in self.uncovered(pod) if not waiver.waives(it, other=False)]
        return not lost and (not self.covers.of(pod) or self._has_heir(pod))

    def _all_are_refused(self) -> bool:
        """Says whether Kafka refuses every pod, or every pod Kafka, by credentials or certificates, and none runs a
        task. None is a member of the group then, so no task stands still for a pod that is restarted; and other
        credentials come with the restart, where waiting mends nothing."""
        return all(
            pod.report is not None
            and self.covers.is_fresh(pod.report)
            and not pod.ready
            and pod.report.state != RUNNING
            and all(task.role is not ReportedRole.ACTIVE for task in pod.report.tasks)
            and any(it.name == "kafka" and it.refused for it in pod.report.outages)
            for pod in self._observed.pods
        )

    def _tells_all(self, pod: PodSeen, report: PodReport) -> bool:
        """Says whether a report has all tasks that the pod has to do with. A pod that joins its group again may have
        state of tasks that it does not report: it is about to get them back. A pod that was never ready has none. And
        the only pod, if it reaches Kafka, has no other to wait for: its trouble would never be mended."""
        alone = self._observed.children.replicas == 1 and not any(it.name == "kafka" for it in report.outages)
        return not pod.was_ready or alone or (report.generation is not None and report.state == RUNNING)

    def _works(self, pod: PodSeen) -> bool:
        """Says whether the pod calls itself ready: if Kubernetes says that it is not, that is about its node."""
        report = pod.report
        if report is None or not self.covers.is_fresh(report):
            return False
        return pod.answers_probes if report.ready is None else report.ready

    def _is_spared(self, pod: PodSeen, waiver: Waiver) -> bool:
        """Says whether all others work, and its own tasks could go on there: that is as safe as with a pod that is
        ready."""
        lost = [
            it for it in self.blockers_of(pod) if leading_word(it) != "NotReady" and not waiver.waives(it, other=False)
        ]
        others = [it for it in self._observed.pods if it is not pod]
        unsettled = any(self._unknown(it) is not None or any(self._unsettled(it)) for it in others)
        return not lost and not unsettled and not any(self._application())

    def _comes_back(self, pod: PodSeen) -> bool:
        """Says whether its container ended, and is or will be started again in a moment, with the files on its disk."""
        if not pod.was_ready or pod.phase != "Running":
            return False
        if pod.waiting_reason is not None:
            return pod.waiting_reason == "CrashLoopBackOff" and pod.restarts < CRASHES
        return pod.running_since is None or self._observed.at - pod.running_since < COMING_BACK_SECONDS

    def _never_answered(self, pod: PodSeen) -> bool:
        """Says whether its container runs and did not once pass its startup probe, which is asked every second: it
        waits in the user's imports, say. It can be in the group only since a moment ago: then its tasks do not run
        elsewhere."""
        if pod.started is not False or pod.running_since is None:
            return False
        runs_for = self._observed.at - pod.running_since
        return runs_for >= (PROBED_SECONDS if self.all_run() else STARTING_SECONDS)

    def _has_heir(self, pod: PodSeen) -> bool:
        """Says whether there is another pod that tasks may go to; the only pod there is to be is followed by itself."""
        others = [it for it in self._observed.pods if it.name != pod.name]
        return any(map(self.covers.may_take_over, others)) or self._observed.children.replicas == 1

    def _newest_generation(self) -> int:
        return max((it.report.generation or 0 for it in self._observed.pods if it.report), default=0)

    def _application(self) -> Iterator[Blocker]:
        """Yields the blockers of the application as a whole."""
        replicas = self._observed.children.replicas
        ordinals = Counter(pod.ordinal for pod in self._observed.pods)
        if replicas is None and ordinals:
            yield Blocker(pod="-", reason="NotReady: the StatefulSet is missing, its pods would not come back")
        yield from self._missing_pods(replicas or 0, ordinals)
        for ordinal, count in ordinals.items():
            if count > 1:
                yield Blocker(pod="-", reason=f"NotReady: {count} pods have the number {ordinal}")
        for pod, outage in self.covers.outages("kafka"):
            told = f"Unreachable: it cannot reach Kafka at {outage.address}, so its report of its tasks may be old"
            moved = "if Kafka has moved, set spec.replicas to 0 until all pods are gone, and back"
            yield Blocker(pod=pod.name, reason=f"{told}: {outage.message}; {moved}")
        yield from islice(self._missing(), COUNTED)

    def _missing_pods(self, replicas: int, there: Counter[int]) -> Iterator[Blocker]:
        """Yields the first pods that do not exist one by one, and the others in one sentence: there may be any number
        of them."""
        for ordinal in islice((it for it in range(replicas) if it not in there), LISTED):
            yield Blocker(pod="-", reason=f"NotReady: pod number {ordinal} does not exist yet")
        more = replicas - sum(it < replicas for it in there) - LISTED
        if more > 0:
            yield Blocker(pod="-", reason=f"NotReady: {more} more pods do not exist yet")

    def _missing(self) -> Iterator[Blocker]:
        """Yields the tasks with stores that must be somewhere and run nowhere."""
        followed = {
            task: replicas[0].pod.name
            for task, replicas in self.covers.replicas.items()
            if any(replica.task.stores for replica in replicas)
        }
        for task in chain(followed, (it for it in self._expected if it not in followed)):
            if not self.covers.owners.get(task):
                pod = followed.get(task, "-")
                yield Blocker(pod=pod, task=task, reason="TaskMissing: no pod reports that it runs this task")

    def _unknown(self, pod: PodSeen) -> Blocker | None:
        """Yields why nothing can be said about a pod."""
        if pod.report is None:
            why = pod.waiting_reason or pod.unreachable or "it was not asked"
            word = "NotReady" if pod.waiting_reason else "Unreachable"
            return Blocker(pod=pod.name, reason=f"{word}: its status is not known: {why}{_of_node(pod)}")
        if self.covers.is_fresh(pod.report):
            return None
        age = round(self._observed.at - pod.report.fetched_at, 1)
        return Blocker(pod=pod.name, reason=f"Unreachable: its last answer is too old{_of_node(pod)}", age_seconds=age)

    def _unsettled(self, pod: PodSeen) -> Iterator[Blocker]:
        """Yields the blocker of a pod that comes, goes or changes its tasks."""
        if pod.terminating:
            yield Blocker(pod=pod.name, reason=f"NotReady: it is about to end{_of_node(pod)}")
        elif pod.report is not None and pod.report.hanging:
            hang = pod.report.hanging[0]
            yield Blocker(pod=pod.name, task=hang.task, reason=f"NotReady: it commits nothing: {hang.message}")
        elif not pod.ready:
            yield Blocker(pod=pod.name, reason=f"NotReady: {node_words(pod) or 'it is not ready yet'}")
        elif not self.covers.may_take_over(pod):
            yield Blocker(pod=pod.name, reason="NotReady: it is one more than are wanted, and about to end")
        state, generation = (pod.report.state, pod.report.generation) if pod.report else ("", None)
        if state != RUNNING:
            told = f"Rebalancing: its state is {state}, not {RUNNING}"
            yield Blocker(pod=pod.name, reason=told + (_OF_JOINING if state == JOINING else ""))
        newest = self._newest_generation()
        if generation is None or generation < newest:
            yield Blocker(pod=pod.name, reason=f"Rebalancing: its generation is {generation}, another pod's {newest}")


def node_words(pod: PodSeen, whose: str = "its") -> str | None:
    """Returns what is wrong with the node of a pod; ``None`` if nothing is, as far as its pods show."""
    if not pod.node_lost:
        return None
    return (
        f"{whose} node {pod.node} no longer reports to Kubernetes; mend the node, or delete it if it is gone for good"
    )


def _of_node(pod: PodSeen) -> str:
    words = node_words(pod)
    return "" if words is None else f", and {words}"
