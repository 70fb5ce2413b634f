"""Reads schedules as Kubernetes' CronJobs have them, and tells when they are due next.

Called when a manifest is read, and by the operator; pure. Of the five fields of cron minutes, hours, days of the month,
months and days of the week are read, with lists, ranges, steps and English names, and ``@hourly`` and its like.
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
    #: Where both kinds of days are restricted, either is enough.
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
    parts = _NAMED.get(text.lower(), text).split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"has {len(parts)} fields instead of five")
    minutes, hours, days, months, weekdays = (_values(*each) for each in zip(parts, _FIELDS, strict=True))
    either = not (_is_any(parts[2]) or _is_any(parts[4]))
    return CronSchedule(minutes, hours, days, months, weekdays, either)


def _midnight(start: datetime, number: int) -> datetime:
    return start.replace(hour=0, minute=0) + timedelta(days=number)


def _is_any(part: str) -> bool:
    """Says whether a field leaves days open. A step restricts them, other than in Unix' cron."""
    return not {"*", "?", "*/1", "?/1"}.isdisjoint(part.split(","))


def _values(part: str, field: tuple[int, int, tuple[str, ...]]) -> frozenset[int]:
    return frozenset(value for item in part.split(",") for value in _range(item, *field))


def _range(item: str, least: int, most: int, names: tuple[str, ...]) -> range:
    span, slash, step = item.partition("/")
    first, dash, last = span.partition("-")
    if span in ("*", "?"):
        low, high = least, most
    else:
        low = _value(first, least, names)
        high = _value(last, least, names) if dash else most if slash else low
    every = _number(step) if slash else 1
    if not (least <= low <= high <= most and every >= 1):
        raise ValueError(f"has {item!r}, expected values from {least} to {most}")
    return range(low, high + 1, every)


def _value(text: str, least: int, names: tuple[str, ...]) -> int:
    return names.index(text.lower()) + least if text.lower() in names else _number(text)


def _number(text: str) -> int:
    if not (text.isdecimal() and len(text) <= 4):
        raise ValueError(f"has {text!r}, expected a number")
    return int(text)
