"""Judges removals of pods by the truth: the rule of restart safety in its own words, not the operator's.

A pod may be taken away only if at some moment of the last ``max_age`` seconds every pod was ready, and every task with
stores that it ran then was covered: another ready pod was at most ``max_lag`` records behind, or a restore of the task
would have taken at most ``max_restore`` seconds. No pod may be taken while another one that we took is not back.
"""

from __future__ import annotations

from collections.abc import Callable

from simulated_cluster import Moment, Pod, SimulatedCluster


class RestartTruth:
    """Gets a call for every removal of a pod; collects the removals that must not have been."""

    def __init__(self, cluster: SimulatedCluster, max_lag: int, max_age: float, max_restore: float) -> None:
        self._cluster = cluster
        self._max_lag, self._max_age, self._max_restore = max_lag, max_age, max_restore
        self._taken: dict[int, str] = {}
        self.violations: list[str] = []
        self.taken = 0

    def took(self, pod: Pod, *, was_ready: bool, leaving: Callable[[str], bool] = lambda _: False) -> None:
        """The operator evicted it, or has it scaled away. ``leaving``: tasks that the revision that is rolled out does
        not have any more. A pod that is not ready is down already: it only must have nothing to lose."""
        self._forget_those_that_are_back()
        if pod.comes_back(self._cluster.now):
            self._violation(f"{pod.name} was taken with its warm disk, as it came back")
        others = {ordinal for ordinal, uid in self._taken.items() if ordinal != pod.ordinal}
        if others and was_ready:
            self._violation(f"{pod.name} was taken while {sorted(others)} are not back")
        self._taken[pod.ordinal] = pod.uid
        self.taken += was_ready
        if not self._was_safe(pod, self._max_age, all_ready=was_ready, leaving=leaving):
            self._violation(f"{pod.name} ({'ready' if was_ready else 'not ready'}) was taken while it was not safe")

    def was_drained(self, pod: Pod, grace: float) -> None:
        """Another client evicted it, through the budget, which follows the truth within ``grace`` seconds."""
        if not self._was_safe(pod, self._max_age + grace, all_ready=True, leaving=lambda _: False):
            self._violation(f"the budget let {pod.name} go while it was not safe")

    def _forget_those_that_are_back(self) -> None:
        for ordinal, uid in list(self._taken.items()):
            now = self._cluster.pods.get(ordinal)
            is_back = now is not None and now.uid != uid and now.ready
            if is_back or ordinal >= (self._cluster.replicas or 0):
                del self._taken[ordinal]

    def _was_safe(self, pod: Pod, age: float, *, all_ready: bool, leaving: Callable[[str], bool]) -> bool:
        window = [moment for moment in self._cluster.history if moment.at >= self._cluster.now - age - 1e-6]
        for moment in window:
            then = moment.pods.get(pod.name)
            actives = then.actives if then is not None and then.uid == pod.uid else frozenset[str]()
            if all_ready and not self._all_ready(moment):
                continue
            if all(leaving(task) or self._could_go_on(task, pod, window) for task in actives):
                return True
        return False

    def _all_ready(self, moment: Moment) -> bool:
        pods = [it for it in moment.pods.values() if it.ready and not it.terminating]
        return len(pods) >= (self._cluster.replicas or 0)

    def _could_go_on(self, task: str, pod: Pod, window: list[Moment]) -> bool:
        return any(self._is_followed(task, pod, moment) or self._is_restored(task, pod, moment) for moment in window)

    def _is_followed(self, task: str, pod: Pod, moment: Moment) -> bool:
        followers = moment.followers.get(task, {})
        return any(
            name != pod.name and lag < self._max_lag + 1 and name in moment.pods and moment.pods[name].ready
            for name, lag in followers.items()
        )

    def _is_restored(self, task: str, pod: Pod, moment: Moment) -> bool:
        """By another pod that works, or by the only one when it is back."""
        heirs = [name for name, it in moment.pods.items() if name != pod.name and it.ready]
        seconds = moment.restore_seconds.get(task)
        return seconds is not None and seconds <= self._max_restore and bool(heirs or self._cluster.replicas == 1)

    def _violation(self, text: str) -> None:
        self.violations.append(f"at {self._cluster.now - 1_700_000_000:.2f} s: {text}")
