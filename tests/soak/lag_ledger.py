"""Checks that the lag an instance reports is never smaller than the truth.

Pure; the soak driver's watching thread passes it the answers of the broker and of instances, each with its time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

#: Roles whose lag decides whether they may take over.
_REPLICAS = ("standby", "warmup")


class _Observation(NamedTuple):
    at_ms: float
    end: int


class LagLedger:
    """Compares standbys' reports with changelog ends that were seen before and after them."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        #: Reports of standbys that were compared with something.
        self.compared = 0
        self.largest_lag = 0
        self._ends: dict[str, list[_Observation]] = defaultdict(list)
        #: Positions whose changelog's end has not been looked at since.
        self._to_confirm: dict[str, tuple[int, str]] = {}

    def observe_ends(self, at_ms: float, committed: Mapping[str, int], written: Mapping[str, int]) -> None:
        """Takes the broker's answer before ``at_ms``: the end of each changelog's committed records, and of all its
        records."""
        for changelog, end in committed.items():
            self._ends[changelog].append(_Observation(at_ms, end))
        for changelog, end in written.items():
            position, report = self._to_confirm.pop(changelog, (0, ""))
            if position > end:
                self.findings.append(f"{report}: the changelog ended at {end} even after that")

    def check(self, instance: str, status: Mapping[str, Any]) -> None:
        """One instance's ``/status`` document."""
        for task in status["tasks"]:
            if task["role"] in _REPLICAS:
                for store in task["stores"]:
                    self._check_store(f"{instance}, {task['role']} {task['id']}", store)

    def _check_store(self, where: str, store: Mapping[str, Any]) -> None:
        position, end, lag = store["position"], store["endOffset"], store["lag"]
        changelog = store["changelog"]
        report = f"{where}, {changelog}: position {position}, endOffset {end}, lag {lag} at {store['observedAt']}"
        known = None if position is None or end is None else max(0, end - position)
        if lag != known:
            self.findings.append(f"{report}: endOffset - position is {known}")
        if end is not None:
            self._check_end(report, changelog, end, store["observedAt"])
        if position is not None and position > self._to_confirm.get(changelog, (0, ""))[0]:
            self._to_confirm[changelog] = (position, report)
        self.largest_lag = max(self.largest_lag, lag or 0)

    def _check_end(self, report: str, changelog: str, end: int, observed_at: str | None) -> None:
        if observed_at is None:
            self.findings.append(f"{report}: an end that nobody observed")
            return
        observed_ms = datetime.fromisoformat(observed_at).timestamp() * 1000
        known = [seen.end for seen in self._ends[changelog] if seen.at_ms < observed_ms]
        self.compared += bool(known)
        if known and known[-1] > end:
            self.findings.append(f"{report}: the changelog had ended at {known[-1]} before that")
