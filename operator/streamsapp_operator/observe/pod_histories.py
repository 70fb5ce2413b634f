"""The last hour of the pods of one application, as they measured it themselves.

Made for a page, on its viewer's thread; nothing of it is shared with others. Pods are asked every ten seconds for what
is new. User code runs in them: their answers are checked, and what is kept of them is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamsapp.web.history import STEP_MS, HistoryReader, Moment, MomentHistory
from streamsapp_operator.observe.exchange import Address
from streamsapp_operator.observe.pod_status import PodAsker
from streamsapp_operator.steady_clock import SteadyClock

#: Instances of an application that are drawn, and characters of the name of one.
MOST_INSTANCES, _LONGEST_NAME = 200, 100


class PodHistories:
    """Follows what the pods of an application measured."""

    def __init__(self, asker: PodAsker, clock: SteadyClock) -> None:
        self._asker = asker
        self._clock = clock
        self._asked_at: float | None = None
        self._last: dict[str, int] = {}
        self._histories: dict[str, MomentHistory] = {}
        self._reader = HistoryReader()

    def news(self, pods: Mapping[str, Address], tokens: Sequence[str]) -> dict[str, tuple[Moment, ...]]:
        """Returns the moments that are new since the last call, by instance."""
        now = self._clock.now()
        if self._asked_at is not None and now - self._asked_at < STEP_MS / 1000:
            return {}
        self._asked_at = now
        asked = {name: (address, self._last.get(name, 0)) for name, address in pods.items()}
        for pod, instances in self._asker.histories(asked, tokens).items():
            for name, moments in instances.items():
                self._add(pod, name, moments)
        return self._reader.news(self._histories.values())

    def _add(self, pod: str, name: str, moments: Sequence[Moment]) -> None:
        shown = (name if name.startswith(pod) else f"{pod} {name}")[:_LONGEST_NAME]
        if shown not in self._histories and len(self._histories) >= MOST_INSTANCES:
            return
        history = self._histories.setdefault(shown, MomentHistory(shown))
        for moment in moments:
            history.add(moment)
        self._last[pod] = max(history.last_ms, self._last.get(pod, 0)) if moments else self._last.get(pod, 0)
