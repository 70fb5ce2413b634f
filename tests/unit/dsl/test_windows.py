"""Window definitions: which windows a record belongs to, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from streamsapp import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from streamsapp.errors import TopologyError


def test_a_record_belongs_to_one_tumbling_window() -> None:
    windows = TimeWindows.of(timedelta(seconds=1))
    assert list(windows.starts_for(0)) == [0]
    assert list(windows.starts_for(999)) == [0]
    assert list(windows.starts_for(1000)) == [1000]
    assert windows.end_of(1000) == 2000


def test_a_record_belongs_to_every_hopping_window_around_it_and_none_begins_before_zero() -> None:
    windows = TimeWindows.of(10).advance_by(4)
    assert list(windows.starts_for(3)) == [0]
    assert list(windows.starts_for(12)) == [4, 8, 12]
    assert list(windows.starts_for(13)) == [4, 8, 12]
    assert list(windows.starts_for(14)) == [8, 12]


def test_an_unlimited_window_takes_all_records_from_its_start_on() -> None:
    windows = UnlimitedWindows.of().start_on(5)
    assert list(windows.starts_for(4)) == []
    assert list(windows.starts_for(5)) == [5]
    assert list(windows.starts_for(10**15)) == [5]


def test_join_windows_may_be_asymmetric_and_even_one_sided() -> None:
    windows = JoinWindows.of(10, grace=5).before(0).after(timedelta(seconds=1))
    assert (windows.before_ms, windows.after_ms, windows.grace_ms, windows.size_ms) == (0, 1000, 5, 1000)
    assert JoinWindows.of(10).after(-4).size_ms == 6


def test_emit_strategies_have_kafka_streams_names() -> None:
    assert EmitStrategy.on_window_update() is not EmitStrategy.on_window_close()


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: TimeWindows.of(0), "size must be at least 1 ms, got 0"),
        (lambda: TimeWindows.of("10s"), "size='10s' is not a duration"),  # type: ignore[arg-type]
        (lambda: TimeWindows.of(1.5), "size=1.5 is not a duration"),  # type: ignore[arg-type]
        (lambda: TimeWindows.of(True), "size=True is not a duration"),
        (lambda: TimeWindows.of(10, grace=-1), "grace must be at least 0 ms, got -1"),
        (lambda: TimeWindows.of(10).advance_by(11), "advance=11 ms is more than size=10 ms"),
        (lambda: TimeWindows.of(10).advance_by(0), "advance must be at least 1 ms"),
        (lambda: SlidingWindows.of(-1), "time_difference must be at least 0 ms"),
        (lambda: SessionWindows.of(0), "inactivity_gap must be at least 1 ms"),
        (lambda: JoinWindows.of(-1), "time_difference must be at least 0 ms"),
        (lambda: JoinWindows.of(5).before(-6), "before must be at least -5 ms"),
        (lambda: UnlimitedWindows.of().start_on(-1), "start must be at least 0 ms"),
        (lambda: Suppressed.until_time_limit(-1), "time_to_wait must not be negative"),
        (lambda: Suppressed.BufferConfig.max_records(0), "records=0; a buffer holds at least 1"),
        (lambda: Suppressed.until_window_closes(Suppressed.BufferConfig.max_records(3)), "must not emit early"),
    ],
)
def test_what_makes_no_window_is_refused_by_name(make: Callable[[], object], names: str) -> None:
    with pytest.raises(TopologyError, match=names.replace("(", r"\(")):
        make()
