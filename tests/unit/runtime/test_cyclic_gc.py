"""The garbage collector's settings while instances run."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from streamsapp.runtime import cyclic_gc

OWN = (701, 11, 12)


@pytest.fixture(autouse=True)
def _no_instance_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if no other test of this process had left an instance behind."""
    monkeypatch.setattr(cyclic_gc, "_instances", 0)
    before = gc.get_threshold()
    gc.set_threshold(*OWN)
    yield
    gc.set_threshold(*before)


def test_settings_come_back_with_the_last_instance() -> None:
    cyclic_gc.relax()
    cyclic_gc.relax()
    assert gc.get_threshold() == cyclic_gc.RELAXED

    cyclic_gc.restore()
    assert gc.get_threshold() == cyclic_gc.RELAXED
    cyclic_gc.restore()
    assert gc.get_threshold() == OWN


def test_settings_that_the_process_made_between_two_instances_are_kept() -> None:
    cyclic_gc.relax()
    cyclic_gc.restore()
    gc.set_threshold(900, 5, 5)

    cyclic_gc.relax()
    cyclic_gc.restore()

    assert gc.get_threshold() == (900, 5, 5)
