"""Remembers how far ahead a pod's clock was lately, which bounds the age of its reports.

One per observer, called on the thread of its loop. A pod whose clock is set back while it has stopped looking would say
that what it saw long ago was seen now; the larger offset of a moment ago shows its true age.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import replace

from streamsapp_operator.model.observed_state import PodReport

#: Seconds: by then each user of earlier observations has looked again.
_MEMORY = 60.0


class ClockOffsets:
    """Remembers offsets, per pod by its uid."""

    def __init__(self, memory: float = _MEMORY) -> None:
        self._memory = memory
        self._seen: dict[str, deque[tuple[float, float]]] = defaultdict(deque)

    def bounded(self, uid: str, report: PodReport) -> PodReport:
        """Returns the report with the largest offset of this pod within memory."""
        seen = self._seen[uid]
        seen.append((report.fetched_at, report.clock_offset))
        while seen[0][0] < report.fetched_at - self._memory:
            seen.popleft()
        return replace(report, clock_offset=max(offset for _, offset in seen))

    def keep(self, uids: Collection[str]) -> None:
        """Forgets pods that are gone."""
        for uid in self._seen.keys() - set(uids):
            del self._seen[uid]
