"""The last hour of an instance: bounded, ascending, and read by many."""

from __future__ import annotations

import msgspec
import pytest

from streamsapp.structs import decoded
from streamsapp.web.history import (
    FIELDS,
    MOMENTS,
    MOST_INSTANCES,
    SPAN_MS,
    STEP_MS,
    HistoryAnswer,
    HistoryReader,
    Moment,
    MomentHistory,
    history_document,
)


def times(history: MomentHistory, after: int = 0) -> list[int]:
    return [each.at_ms for each in history.after(after)]


def filled(*at_ms: int) -> MomentHistory:
    history = MomentHistory("one")
    for each in at_ms:
        history.add(Moment(each))
    return history


def test_an_hour_is_kept_and_no_more() -> None:
    history = filled(*(STEP_MS * number for number in range(5 * MOMENTS)))
    assert times(history) == [STEP_MS * number for number in range(4 * MOMENTS, 5 * MOMENTS)]


def test_moments_that_come_faster_than_they_should_are_not_more() -> None:
    assert len(times(filled(*range(1, 10 * MOMENTS)))) == MOMENTS


def test_what_is_older_than_an_hour_goes_when_the_clock_goes_on() -> None:
    history = filled(1_000, 2_000, 2_000 + SPAN_MS)
    assert times(history) == [2_000, 2_000 + SPAN_MS]
    history.add(Moment(10 * SPAN_MS))
    assert times(history) == [10 * SPAN_MS]


def test_times_ascend_after_the_clock_went_back() -> None:
    history = filled(10_000, 20_000, 30_000, 40_000, 25_000, 35_000)
    assert times(history) == [10_000, 20_000, 25_000, 35_000]


def test_a_moment_takes_the_place_of_one_at_the_same_time() -> None:
    history = filled(10_000)
    history.add(Moment(10_000, rate=3.0))
    assert history.after(0) == (Moment(10_000, rate=3.0),)


def test_it_is_read_from_a_time_on() -> None:
    history = filled(10_000, 20_000, 30_000)
    assert times(history, 10_000) == [20_000, 30_000]
    assert times(history, 15_000) == [20_000, 30_000]
    assert times(history, 30_000) == []
    assert (history.last_ms, MomentHistory("two").last_ms) == (30_000, 0)


def test_a_reader_of_a_future_that_is_none_gets_everything() -> None:
    assert times(filled(10_000, 20_000), 99_000) == [10_000, 20_000]


def test_a_reader_gets_each_moment_once_and_after_a_clock_went_back_all() -> None:
    one, two, reader = filled(10_000), filled(), HistoryReader()
    two.instance = "two"
    assert {name: len(some) for name, some in reader.news([one, two]).items()} == {"one": 1}
    assert reader.news([one, two]) == {}
    two.add(Moment(15_000))
    assert {name: len(some) for name, some in reader.news([one, two]).items()} == {"two": 1}
    one.add(Moment(5_000))
    assert [each.at_ms for each in reader.news([one, two])["one"]] == [5_000]


def test_a_document_is_read_back_as_it_was() -> None:
    moments = (Moment(10_000, 1.5, 7, 2.0, 30.0, 4, 5, 6, True), Moment(20_000))
    document = history_document({"one": moments})
    assert document["fields"] == FIELDS
    assert all(len(figures) == len(FIELDS) for figures in document["instances"]["one"])
    assert decoded(msgspec.json.encode(document), HistoryAnswer).instances == {"one": moments}


@pytest.mark.parametrize(
    "instances",
    [
        {"one": [["soon"]]},
        {"one": [[1, "fast"]]},
        {"one": [[-1]]},
        {"one": [[1, 1e300]]},
        {"one": [[1]] * (MOMENTS + 1)},
        {f"{number}": [] for number in range(MOST_INSTANCES + 1)},
        [["one"]],
    ],
)
def test_an_answer_that_is_wrong_or_too_large_is_refused(instances: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoded(msgspec.json.encode({"instances": instances}), HistoryAnswer)
