"""Windows of the user's own: days of a time zone, which clocks make shorter and longer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from driven import as_text, number, text
from streamsapp import EmitStrategy, Materialized, Produced, StreamsBuilder, Suppressed, Windowed, Windows
from streamsapp.errors import ProcessingError, TopologyError
from streamsapp.testing import TopologyTestDriver

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000


class LocalDays(Windows):
    """The days of a time zone."""

    size_ms = 25 * HOUR

    def windows_for(self, timestamp: int) -> Iterable[tuple[int, int]]:
        day = datetime.fromtimestamp(timestamp / 1000, BERLIN).date()
        yield _midnight(day.year, day.month, day.day), _midnight(*(day + timedelta(days=1)).timetuple()[:3])


def _midnight(year: int, month: int, day: int) -> int:
    return round(datetime(year, month, day, tzinfo=BERLIN).timestamp() * 1000)


def _counts(begin: datetime, hours: int, emit: EmitStrategy, *, suppressed: bool = False) -> dict[Windowed[str], int]:
    builder = StreamsBuilder()
    windowed = builder.stream("in", as_text).group_by_key().windowed_by(LocalDays()).emit_strategy(emit)
    table = windowed.count(Materialized("days"))
    if suppressed:
        table = table.suppress(Suppressed.until_window_closes())
    seen: dict[Windowed[str], int] = {}
    table.to_stream().peek(lambda key, value: seen.update({key: value})).to("out", Produced(value_serde=number))
    first = round(begin.timestamp() * 1000)
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", text, text, first, HOUR).pipe_key_values([("a", "x")] * hours)
    return seen


@pytest.mark.parametrize(
    ("month", "day", "long"), [(3, 29, 23), (10, 25, 25)], ids=["clocks go forward", "clocks go back"]
)
def test_a_day_has_as_many_hours_as_its_clocks(month: int, day: int, long: int) -> None:
    begin = datetime(2026, month, day, tzinfo=BERLIN).astimezone(UTC)

    counts = _counts(begin, 24 + long, EmitStrategy.on_window_update())

    first = Windowed("a", _midnight(2026, month, day), _midnight(2026, month, day + 1))
    assert counts[first] == long == (first.end_ms - first.start_ms) // HOUR
    assert [key.end_ms for key in list(counts)[:-1]] == [key.start_ms for key in list(counts)[1:]]


@pytest.mark.parametrize("suppressed", [False, True])
def test_final_results_have_their_days_own_ends(suppressed: bool) -> None:
    begin = datetime(2026, 3, 29, tzinfo=BERLIN).astimezone(UTC)
    emit = EmitStrategy.on_window_update() if suppressed else EmitStrategy.on_window_close()

    counts = _counts(begin, 60, emit, suppressed=suppressed)

    assert counts == {
        Windowed("a", _midnight(2026, 3, 29), _midnight(2026, 3, 30)): 23,
        Windowed("a", _midnight(2026, 3, 30), _midnight(2026, 3, 31)): 24,
    }


class Wrong(Windows):
    size_ms = 10

    def windows_for(self, timestamp: int) -> Iterable[tuple[int, int]]:
        return [(timestamp + 1, timestamp + 5)]


def test_windows_without_their_timestamp_are_an_error_of_the_record() -> None:
    builder = StreamsBuilder()
    builder.stream("in", as_text).group_by_key().windowed_by(Wrong()).count().to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(ProcessingError) as raised:
        driver.create_input_topic("in", text, text).pipe_input("a", "x", 7)

    assert "Wrong.windows_for(7) gave [8, 12): a window begins at 0 or later" in str(raised.value.__cause__)


class WithoutSize(Wrong):
    size_ms = None  # type: ignore[assignment]


def test_windows_without_a_size_are_refused_when_the_program_is_built() -> None:
    with pytest.raises(TopologyError, match="WithoutSize: size_ms=None is not a duration"):
        StreamsBuilder().stream("in", as_text).group_by_key().windowed_by(WithoutSize())
