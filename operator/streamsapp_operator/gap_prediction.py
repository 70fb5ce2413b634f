"""Predicts for how long tasks stand still when their pod is taken away, from the gaps that were observed before. Pure.

A gap has a part that is always there, and a part that grows with what there is to do: bytes to fetch, records to read.
So the gaps of a kind lie about a line, and that line is found by medians (Theil and Sen's estimator): a gap that was
very long for once does not move it, nor do some of many. Gaps with much to do vary by more seconds than others, so the
medians give them less weight: what counts is how far a prediction is off as a part of the gap.

Used by the gate and by ``takeover``, at each reconcile; ``plan.gap_measurement`` remembers what is observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.status import ExpectedGap, GapKind, ObservedGap

#: The seconds that a task takes to go on elsewhere, before any gap was observed: the pod leaves the group, the heir
#: reads the rest and starts.
TAKEOVER_SECONDS = 1.0
#: Changelog records per second that a standby reads before it goes on, before any gap shows that.
ASSUMED_REPLAY = 20_000.0
#: Gaps of each kind that are remembered.
KEPT = 15
#: Two gaps show how a gap grows if their work differs by so many seconds, and by this share of the largest; so many
#: such pairs show it well enough.
_APART_SECONDS, _APART, _PAIRS = 0.05, 0.25, 3
#: How a gap grows with its work until that was seen, and the most that is believed: work is in seconds already.
_USUAL_GROWTH, _MOST_GROWTH = 1.0, 10.0
#: A gap that is shorter is no more precise.
_SHORTEST_SECONDS = 0.01

_WAYS = {
    "standby": "a standby goes on",
    "snapshot": "a snapshot is restored",
    "stateless": "its tasks have no state",
    "none": "no task runs on it",
}


class GapPredictor:
    """Predicts by the gaps of one application."""

    def __init__(self, observed: Sequence[ObservedGap] = ()) -> None:
        """Takes the newest last."""
        self._observed = observed
        self._lines: dict[GapKind, tuple[float, float, int]] = {}

    def predict(self, kind: GapKind, work_seconds: float = 0.0) -> ExpectedGap:
        """Returns the gap of a kind with so much to do."""
        if kind == "none":
            return ExpectedGap(seconds=0.0, kind=kind)
        if kind not in self._lines:
            self._lines[kind] = self._line(kind)
        base, growth, observed = self._lines[kind]
        seconds = round(base + growth * work_seconds, 3)
        return ExpectedGap(seconds=seconds, kind=kind, work_seconds=round(work_seconds, 3), observed=observed)

    def _line(self, kind: GapKind) -> tuple[float, float, int]:
        """Returns the gap without any work, what a second of work adds to it, and how many gaps show that."""
        own = [it for it in self._observed if it.kind == kind]
        growth = _growth(own)
        shown = own or self._observed[-KEPT:]  # without one of its kind: what others take without their work
        least = _least(shown)
        rests = [(max(0.0, it.seconds - growth * it.work_seconds), 1 / (least + it.work_seconds)) for it in shown]
        return _weighted_median(rests) if rests else TAKEOVER_SECONDS, growth, len(own)


def _growth(gaps: Sequence[ObservedGap]) -> float:
    largest, least = max((it.work_seconds for it in gaps), default=0.0), _least(gaps)
    apart = max(_APART_SECONDS, _APART * largest)
    found = [
        ((two.seconds - one.seconds) / work, abs(work) / (2 * least + one.work_seconds + two.work_seconds))
        for one, two in combinations(gaps, 2)
        if abs(work := two.work_seconds - one.work_seconds) >= apart
    ]
    return min(max(_weighted_median(found), 0.0), _MOST_GROWTH) if len(found) >= _PAIRS else _USUAL_GROWTH


def _least(gaps: Sequence[ObservedGap]) -> float:
    """Returns by how much gaps vary without any work, but for a factor."""
    return max(_SHORTEST_SECONDS, min((it.seconds for it in gaps), default=0.0))


def _weighted_median(found: Sequence[tuple[float, float]]) -> float:
    """Returns the value, of values with their weights, at which half of the weight is reached."""
    rest, ordered = sum(weight for _, weight in found) / 2, sorted(found)
    for value, weight in ordered:
        rest -= weight
        if rest <= 0:
            return value
    return ordered[-1][0]


def predictor_of(gaps: Sequence[ObservedGap], pods: Iterable[PodSeen]) -> GapPredictor:
    """Returns the predictor for these pods. Where all report their hand-overs, coarse gaps that the operator's looks
    showed of a runtime before say nothing."""
    return GapPredictor([it for it in gaps if it.reported] if report_hand_overs(pods) else gaps)


def report_hand_overs(pods: Iterable[PodSeen]) -> bool:
    """Says whether the pods that could take tasks over report for how long these stood still, as far as pods answer."""
    reports = [pod.report for pod in pods if pod.ready and not pod.terminating]
    return not any(it is not None and it.hand_overs is None for it in reports)


def with_gap(gaps: Sequence[ObservedGap], new: ObservedGap) -> tuple[ObservedGap, ...]:
    """Returns the gaps to remember after another one. A gap that the operator's looks showed is coarse: it counts
    only as long as pods report none."""
    if new.reported:
        gaps = [it for it in gaps if it.reported]
    elif any(it.reported for it in gaps):
        return tuple(gaps)
    same = [it for it in gaps if it.kind == new.kind]
    dropped = same[0] if len(same) >= KEPT else None
    return (*(it for it in gaps if it is not dropped), new)


def predicted_from(expected: ExpectedGap) -> str:
    """Says from what a gap is predicted, in words."""
    way = _WAYS[expected.kind]
    if expected.kind == "none":
        return way
    if expected.observed == 0:
        return f"{way}, none such was observed yet"
    return f"{way}, {expected.observed} such observed"


def gap_text(seconds: float) -> str:
    """Returns a gap as text: below a second in milliseconds."""
    return f"{1000 * seconds:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"
