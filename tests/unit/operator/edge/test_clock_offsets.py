from __future__ import annotations

from streamsapp_operator.model.observed_state import PodReport
from streamsapp_operator.observe.clock_offsets import ClockOffsets


def report(at: float, offset: float) -> PodReport:
    return PodReport("RUNNING", 1, (), fetched_at=at, clock_offset=offset)


def test_a_clock_that_was_set_back_makes_nothing_younger_for_a_minute() -> None:
    offsets = ClockOffsets()
    offsets.bounded("a", report(100.0, 5.0))

    assert offsets.bounded("a", report(159.0, -30.0)).clock_offset == 5.0
    assert offsets.bounded("a", report(161.0, -30.0)).clock_offset == -30.0


def test_a_clock_that_was_set_forward_is_believed_at_once() -> None:
    offsets = ClockOffsets()
    offsets.bounded("a", report(100.0, 0.0))

    assert offsets.bounded("a", report(101.0, 40.0)).clock_offset == 40.0


def test_pods_are_told_apart_by_uid_and_forgotten_when_they_are_gone() -> None:
    offsets = ClockOffsets()
    offsets.bounded("a", report(100.0, 5.0))

    assert offsets.bounded("b", report(100.0, 1.0)).clock_offset == 1.0
    offsets.keep(["b"])
    assert offsets.bounded("a", report(101.0, 2.0)).clock_offset == 2.0
