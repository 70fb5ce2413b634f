"""The figures of the last hour, which the consoles draw. Pure.

The thread that measures adds a moment every ten seconds; threads of HTTP servers read. What is kept is bounded by
``MOMENTS``, whatever the clock does: times are those of the wall clock, as the page shows them, and always ascend.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Annotated, Any

import msgspec

#: Milliseconds: between two moments, and of all that is kept.
STEP_MS, SPAN_MS = 10_000, 3_600_000
#: The most moments of an instance.
MOMENTS = SPAN_MS // STEP_MS
#: The most instances whose histories are read from one answer.
MOST_INSTANCES = 100

#: Figures of others are within what a page can count.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Figure = Annotated[float, msgspec.Meta(ge=0, le=2.0**53)]


class Moment(msgspec.Struct, frozen=True, array_like=True, rename="camel"):
    """The figures of an instance at one moment; one that is not known is ``None``."""

    #: Milliseconds since 1970.
    at_ms: _Count
    #: Processed records a second since the moment before; ``None`` at the first moment of a run.
    rate: _Figure | None = None
    #: Records that wait in the source topics.
    lag: _Count | None = None
    #: The average lateness of records in the task where it is largest, in milliseconds.
    lateness_ms: _Figure | None = None
    #: The average time of a commit since the moment before, or the time of the one under way if that is longer.
    commit_ms: _Figure | None = None
    #: Records left until active tasks are restored.
    restoring: _Count | None = None
    #: Records by which replicas are behind their changelogs.
    replica_lag: _Count | None = None
    #: The age of the oldest snapshot of an active task, in milliseconds.
    snapshot_age_ms: _Count | None = None
    #: No broker answers.
    outage: bool = False


#: The names of the fields, in the order in which a moment is written.
FIELDS = Moment.__struct_encode_fields__

_at = attrgetter("at_ms")


class MomentHistory:
    """The moments of one instance. Any thread may read while one adds."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        self._moments: tuple[Moment, ...] = ()

    def add(self, moment: Moment) -> None:
        """Adds a moment and forgets what is over an hour older. If the clock went back, moments that now lie in the
        future are forgotten, too."""
        kept = (each for each in self._moments if moment.at_ms - SPAN_MS <= each.at_ms < moment.at_ms)
        self._moments = (*kept, moment)[-MOMENTS:]

    def after(self, at_ms: int) -> tuple[Moment, ...]:
        """Returns the moments later than ``at_ms``. If that lies after the last of them, the clock went back: then
        returns all."""
        moments = self._moments
        if moments and moments[-1].at_ms < at_ms:
            return moments
        return moments[bisect_right(moments, at_ms, key=_at) :]

    @property
    def last_ms(self) -> int:
        """The time of the last moment; 0 if there is none."""
        return self._moments[-1].at_ms if self._moments else 0


def history_document(moments: Mapping[str, Iterable[Moment]]) -> dict[str, Any]:
    """Returns moments by instance as the page takes them: each is a list of figures in the order of ``fields``."""
    return {
        "fields": FIELDS,
        "stepMs": STEP_MS,
        "spanMs": SPAN_MS,
        "instances": {name: [msgspec.structs.astuple(each) for each in some] for name, some in moments.items()},
    }


_Moments = Annotated[tuple[Moment, ...], msgspec.Meta(max_length=MOMENTS)]


class HistoryAnswer(msgspec.Struct, frozen=True):
    """The answer of an instance or a pod to ``GET /console/history``."""

    instances: Annotated[dict[str, _Moments], msgspec.Meta(max_length=MOST_INSTANCES)]


class HistoryReader:
    """The histories of the instances behind a page, and what one reader of them has not seen yet."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def news(self, histories: Iterable[MomentHistory]) -> dict[str, tuple[Moment, ...]]:
        """Returns the moments since the last call, by instance; instances without any are left out."""
        found = {each.instance: each.after(self._seen.get(each.instance, 0)) for each in histories}
        self._seen |= {name: some[-1].at_ms for name, some in found.items() if some}
        return {name: some for name, some in found.items() if some}
