"""Reads schedules as Kubernetes' CronJobs have them, and says when they are due next.

Called when a manifest is read, and by the operator; pure. Reads cron's five fields: minutes, hours, days of the month,
months and days of the week. They may have lists, ranges, steps and English names; ``@hourly`` and its like are read,
too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: Lowest and highest value of each field, and the names of its values from the lowest on.
_FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_LONGEST = 100
#: A 29th of February comes within so many days, whatever the century.
_FAR = 8 * 366


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The values of the fields; days of the week begin with Sunday, 0."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    #: If both kinds of days are restricted, either is enough.
    either_day: bool

    def after(self, moment: datetime) -> datetime | None:
        """Returns the first moment after this one that is due; ``None`` if there is none, as for the 30th of
        February."""
        start = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        for number in range(_FAR):
            day = start + timedelta(days=number) if number == 0 else _midnight(start, number)
            if self._has(day) and (found := self._time(day)) is not None:
                return found
        return None

    def _has(self, day: datetime) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and ((of_month or of_week) if self.either_day else (of_month and of_week))

    def _time(self, day: datetime) -> datetime | None:
        """Returns the first time of the day from its own on."""
        for hour in sorted(each for each in self.hours if each >= day.hour):
            least = day.minute if hour == day.hour else 0
            minute = min((each for each in self.minutes if each >= least), default=None)
            if minute is not None:
                return day.replace(hour=hour, minute=minute)
        return None


def parse_schedule(text: str) -> CronSchedule:
    """Reads a schedule; raises ``ValueError`` with what is wrong."""
    if len(text) > _LONGEST or not text.isascii():
        raise ValueError(f"has more than {_LONGEST} characters, or others than cron has")
    if "TZ" in text:
        raise ValueError("names a time zone, which Kubernetes refuses in a schedule; write the time in UTC")
    if text.startswith("@every"):
        raise ValueError("has @every, which has no fixed times; write five fields, such as '*/30 * * * *'")
    parts = _NAMED.get(text, text).split()
    if len(parts) != len(_FIELDS):
        named = f", and is none of {', '.join(_NAMED)}" if text.startswith("@") else ""
        raise ValueError(f"has {len(parts)} fields instead of five{named}")
    fields = [_values(*each) for each in zip(parts, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = (values for values, _ in fields)
    return CronSchedule(minutes, hours, days, months, weekdays, not (fields[2][1] or fields[4][1]))


def _midnight(start: datetime, number: int) -> datetime:
    return start.replace(hour=0, minute=0) + timedelta(days=number)


def _values(part: str, field: tuple[int, int, tuple[str, ...]]) -> tuple[frozenset[int], bool]:
    """The values of a field, and whether it leaves days open. A step restricts them, other than in Unix' cron. Empty
    items of a list count for nothing."""
    found = [_range(item, *field) for item in part.split(",") if item]
    return frozenset(value for values, _ in found for value in values), any(is_open for _, is_open in found)


def _range(item: str, least: int, most: int, names: tuple[str, ...]) -> tuple[range, bool]:
    span, *steps = item.split("/")
    first, *ends = span.split("-")
    is_open = first in ("*", "?")  # whatever the range ends at: Kubernetes does not look at that
    if len(steps) > 1 or (len(ends) > 1 and not is_open):
        raise ValueError(f"has {item!r}, expected a value, a range or a step, such as 1, 1-5 or 1-5/2")
    low = least if is_open else _value(first, least, names)
    high = most if is_open else _value(ends[0], least, names) if ends else low
    if steps and not ends:
        high = most
    every = _number(steps[0]) if steps else 1
    if not (least <= low <= high <= most and every >= 1):
        raise ValueError(f"has {item!r}, expected values from {least} to {most}")
    return range(low, high + 1, every), is_open and every == 1


def _value(text: str, least: int, names: tuple[str, ...]) -> int:
    return names.index(text.lower()) + least if text.lower() in names else _number(text)


def _number(text: str) -> int:
    digits = text.removeprefix("+")
    if not (digits.isdecimal() and int(digits) < 1 << 63):
        raise ValueError(f"has {text!r}, expected a number")
    return int(digits)
