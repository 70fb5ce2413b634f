"""Lines of cron: what they mean, when they are due next, and which are refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamsapp.errors import ManifestError
from streamsapp.manifest import decode
from streamsapp.manifest.schedule import parse_schedule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "moment", "following"),
    [
        ("* * * * *", "2026-11-22T10:00:30", "2026-11-22T10:01"),
        ("0 * * * *", "2026-11-22T10:00", "2026-11-22T11:00"),
        ("@hourly", "2026-11-22T23:00", "2026-11-23T00:00"),
        ("*/15 9-17 * * *", "2026-11-22T17:45", "2026-11-23T09:00"),
        ("5,35 */6 * * *", "2026-11-22T06:05", "2026-11-22T06:35"),
        ("50/5 * * * *", "2026-11-22T10:50", "2026-11-22T10:55"),
        ("0 2 * * mon-FRI", "2026-11-20T02:00", "2026-11-23T02:00"),
        ("0 0 1 JAN ?", "2026-01-01T00:00", "2027-01-01T00:00"),
        ("0 0 31 * *", "2026-11-01T00:00", "2026-12-31T00:00"),
        ("0 0 29 2 *", "2026-11-22T00:00", "2028-02-29T00:00"),
        # If both kinds of days are given, either is enough.
        ("0 0 13 * 5", "2026-11-22T00:00", "2026-11-27T00:00"),
        ("0 0 25 * 5", "2026-11-22T00:00", "2026-11-25T00:00"),
        ("0 0 */2 * 1", "2026-11-22T00:00", "2026-11-23T00:00"),
        ("0 0 */2 * 1", "2026-11-23T00:00", "2026-11-25T00:00"),
        ("0 0 */1 * 1", "2026-11-23T00:00", "2026-11-30T00:00"),
        ("@weekly", "2026-11-22T00:00", "2026-11-29T00:00"),
    ],
)
def test_the_next_moment_is_the_first_that_every_field_has(line: str, moment: str, following: str) -> None:
    assert parse_schedule(line).after(at(moment)) == at(following)


def test_a_day_that_never_comes_is_never_due() -> None:
    assert parse_schedule("0 0 30 2 *").after(at("2026-11-22T00:00")) is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "has 0 fields instead of five"),
        ("0 * * *", "has 4 fields instead of five"),
        ("@often", "has 1 fields instead of five"),
        ("60 * * * *", "has '60', expected values from 0 to 59"),
        ("* * 0 * *", "has '0', expected values from 1 to 31"),
        ("* * * * 7", "has '7', expected values from 0 to 6"),
        ("5-1 * * * *", "has '5-1', expected values"),
        ("*/0 * * * *", "has '*/0', expected values"),
        ("a * * * *", "has 'a', expected a number"),
        ("1-2-3 * * * *", "has '1-2-3', expected a value, a range or a step"),
        ("²  * * * *", "others than cron has"),
        ("0 " * 1_000, "more than 100 characters"),
    ],
)
def test_a_line_that_cron_would_not_take_is_refused_by_its_name(line: str, told: str) -> None:
    with pytest.raises(ManifestError) as raised:
        _app({"trigger": "availableNow", "schedule": line})
    (fault,) = raised.value.faults
    assert fault.startswith("spec.spark.schedule: ")
    assert told in fault


def test_a_schedule_of_a_query_that_goes_on_names_both_fields() -> None:
    with pytest.raises(ManifestError) as raised:
        _app({"trigger": "1s", "schedule": "0 * * * *"})
    (fault,) = raised.value.faults
    assert fault.startswith("spec.spark.schedule: needs spec.spark.trigger: availableNow")
    _app({"trigger": "availableNow"})  # from a command line it needs none


def _app(spark: dict[str, str]) -> None:
    decode(
        {
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": "app"},
            "spec": {"topology": {"entrypoint": "a:b"}, "engine": "spark", "spark": spark},
        }
    )
