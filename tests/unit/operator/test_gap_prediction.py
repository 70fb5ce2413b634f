from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from streamsapp_operator.gap_prediction import KEPT, GapPredictor, gap_text, predicted_from, with_gap
from streamsapp_operator.model.status import GapKind, ObservedGap


def gaps(kind: GapKind, *found: tuple[float, float], reported: bool = True) -> tuple[ObservedGap, ...]:
    """Gaps by the work that there was."""
    return tuple(ObservedGap(kind=kind, work_seconds=work, seconds=took, reported=reported) for work, took in found)


def test_before_any_gap_was_observed_one_is_assumed_and_said_to_be() -> None:
    found = GapPredictor().predict("standby")
    assert (found.seconds, found.observed) == (1.0, 0)
    assert predicted_from(found) == "a standby goes on, none such was observed yet"
    assert GapPredictor().predict("snapshot", 20.0).seconds == 21.0
    assert GapPredictor().predict("none").seconds == 0.0


def test_a_gap_is_predicted_by_the_median_of_its_kind() -> None:
    known = gaps("standby", (0, 0.2), (0, 0.3), (0, 0.25)) + gaps("stateless", (0, 3.0))
    found = GapPredictor(known).predict("standby")
    assert (found.seconds, predicted_from(found)) == (0.25, "a standby goes on, 3 such observed")
    assert GapPredictor(known).predict("stateless").seconds == 3.0


def test_a_gap_that_was_very_long_for_once_does_not_count_for_much() -> None:
    known = gaps("standby", (0, 0.2), (0, 60.0), (0, 0.22), (0, 0.21), (0, 0.19))
    assert GapPredictor(known).predict("standby").seconds == 0.21


def test_before_one_of_its_kind_the_other_gaps_count_without_their_work() -> None:
    known = gaps("standby", (0, 0.5), (0, 0.5)) + gaps("stateless", (0, 0.4))
    found = GapPredictor(known).predict("snapshot", 8.0)
    assert (found.seconds, found.observed) == (8.5, 0)


def test_what_a_second_of_work_takes_is_learned_from_gaps_with_different_work() -> None:
    """The pod's own rates are twice too slow, or three quarters of the work is not waited for."""
    for growth in (2.0, 0.25):
        known = gaps("snapshot", *((work, 0.3 + growth * work) for work in (1.0, 4.0, 9.0, 2.0)))
        assert GapPredictor(known).predict("snapshot", 20.0).seconds == pytest.approx(0.3 + growth * 20)


def test_gaps_of_the_same_work_do_not_show_how_a_gap_grows() -> None:
    known = gaps("snapshot", (5.0, 5.5), (5.01, 6.5), (4.99, 5.4), (5.0, 5.6))
    assert GapPredictor(known).predict("snapshot", 10.0).seconds == pytest.approx(10.5, abs=0.2)


def test_work_never_makes_a_gap_shorter_nor_very_much_longer() -> None:
    less = gaps("snapshot", (1.0, 9.0), (5.0, 5.0), (9.0, 1.0))
    assert GapPredictor(less).predict("snapshot", 100.0).seconds <= 9.0
    wild = gaps("standby", (0.0, 0.0), (0.06, 60.0), (0.12, 120.0))
    assert GapPredictor(wild).predict("standby", 0.05).seconds <= 120.0


def test_so_many_gaps_of_each_kind_are_remembered_and_no_more() -> None:
    known: tuple[ObservedGap, ...] = ()
    for number in range(3 * KEPT):
        for kind in ("standby", "snapshot", "stateless"):
            known = with_gap(known, gaps(kind, (0, float(number)))[0])
    assert len(known) == 3 * KEPT
    assert [it.seconds for it in known if it.kind == "standby"] == [float(it) for it in range(2 * KEPT, 3 * KEPT)]


def test_what_looks_show_counts_only_until_pods_report() -> None:
    looks = gaps("standby", (0, 2.0), (0, 1.0), reported=False)
    [exact] = gaps("standby", (0, 0.08))
    assert with_gap(looks, exact) == (exact,)
    assert with_gap((exact,), looks[0]) == (exact,)
    assert with_gap(looks[:1], looks[1]) == looks


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0 ms"), (0.1804, "180 ms"), (0.9996, "1.0 s"), (1.25, "1.2 s"), (61.0, "61.0 s")]
)
def test_a_gap_below_a_second_is_said_in_milliseconds(seconds: float, text: str) -> None:
    assert gap_text(seconds) == text


def restored_early(work: float) -> float:
    """A task that goes on before its files are there: little of the work is waited for."""
    return 0.35 + 0.1 * work


#: For how long tasks stand still in truth, by what there is to do.
TRUTHS: dict[str, tuple[GapKind, Callable[[float], float]]] = {
    "a cut": ("standby", lambda work: 0.06 + work),
    "a hand-over on a busy machine": ("standby", lambda work: 1.9 + 3 * work),
    "a restore at the rates that were measured": ("snapshot", lambda work: 0.5 + work),
    "a restore that takes twice as long": ("snapshot", lambda work: 0.7 + 2.1 * work),
    "a restore that is not waited for": ("snapshot", restored_early),
    "tasks without state": ("stateless", lambda work: 0.8),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", TRUTHS)
def test_nine_of_ten_predictions_are_within_thirty_percent(name: str, seed: int) -> None:
    """Gaps vary by a tenth, one in 25 takes five times as long, and each pod has another amount of state."""
    kind, truth = TRUTHS[name]
    known: tuple[ObservedGap, ...] = ()
    chance, hits, tries = random.Random(f"{name} {seed}"), 0, 0
    for number in range(400):
        work = {"standby": chance.uniform(0, 0.05), "snapshot": chance.uniform(0.2, 30)}.get(kind, 0.0)
        took = truth(work) * chance.lognormvariate(0, 0.1) * (5 if chance.random() < 0.04 else 1)
        if number >= KEPT:
            predicted, tries = GapPredictor(known).predict(kind, work).seconds, tries + 1
            hits += abs(predicted - took) <= 0.3 * took
        known = with_gap(known, ObservedGap(kind=kind, work_seconds=work, seconds=round(took, 3)))
    assert hits >= 0.9 * tries, (hits, tries)
