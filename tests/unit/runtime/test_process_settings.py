"""The interpreter's settings while instances run."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from streamsapp.runtime.process_settings import CYCLIC_GC, RELAXED, SWITCH_INTERVAL, SWITCHING

OWN = (701, 11, 12)


@pytest.fixture(autouse=True)
def _no_instance_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if no other test of this process had left an instance behind."""
    for setting in (CYCLIC_GC, SWITCHING):
        monkeypatch.setattr(setting, "_instances", 0)
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(*OWN)
    yield
    gc.set_threshold(*before)
    sys.setswitchinterval(interval)


def test_settings_come_back_with_the_last_instance() -> None:
    CYCLIC_GC.change()
    CYCLIC_GC.change()
    assert gc.get_threshold() == RELAXED

    CYCLIC_GC.restore()
    assert gc.get_threshold() == RELAXED
    CYCLIC_GC.restore()
    assert gc.get_threshold() == OWN


def test_settings_that_the_process_made_between_two_instances_are_kept() -> None:
    CYCLIC_GC.change()
    CYCLIC_GC.restore()
    gc.set_threshold(900, 5, 5)

    CYCLIC_GC.change()
    CYCLIC_GC.restore()

    assert gc.get_threshold() == (900, 5, 5)


@pytest.mark.parametrize(("own", "while_it_runs"), [(0.005, SWITCH_INTERVAL), (0.0001, 0.0001)])
def test_threads_take_turns_at_least_as_often_as_the_process_has_them(own: float, while_it_runs: float) -> None:
    sys.setswitchinterval(own)
    SWITCHING.change()
    assert sys.getswitchinterval() == pytest.approx(while_it_runs, abs=2e-6)
    SWITCHING.restore()
    assert sys.getswitchinterval() == pytest.approx(own, abs=2e-6)
