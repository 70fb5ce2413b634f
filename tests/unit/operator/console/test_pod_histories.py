"""The last hour of an application's pods: each moment once, and no more of it than a page can draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from streamsapp.testing import MockClock
from streamsapp.web.history import STEP_MS, Moment
from streamsapp_operator.observe.exchange import Address
from streamsapp_operator.observe.pod_histories import MOST_INSTANCES, PodHistories
from streamsapp_operator.steady_clock import SteadyClock

Answers = Mapping[str, Mapping[str, Sequence[Moment]]]


class Asker:
    """Answers as it is told to, and remembers after which times it was asked."""

    def __init__(self) -> None:
        self.answers: Answers = {}
        self.after: list[dict[str, int]] = []

    def histories(self, pods: Mapping[str, tuple[Address, int]], tokens: Sequence[str]) -> Answers:
        assert tokens == ["token"]
        self.after.append({name: after for name, (_, after) in pods.items()})
        return self.answers


class Followed:
    """An application with two pods."""

    def __init__(self) -> None:
        self.asker, self.clock = Asker(), MockClock()
        self._histories = PodHistories(cast(Any, self.asker), SteadyClock(self.clock))

    def news(self, answers: Answers) -> dict[str, list[int]]:
        self.asker.answers = answers
        pods = {name: Address("127.0.0.1", 8080) for name in ("app-0", "app-1")}
        found = self._histories.news(pods, ["token"])
        return {name: [each.at_ms for each in some] for name, some in found.items()}


def test_pods_are_asked_every_ten_seconds_for_what_is_new() -> None:
    it = Followed()
    assert it.news({"app-0": {"app-0": [Moment(10), Moment(20)]}, "app-1": {}}) == {"app-0": [10, 20]}
    assert it.news({"app-0": {"app-0": [Moment(30)]}}) == {}  # it is too soon
    it.clock.advance(STEP_MS)
    assert it.news({"app-0": {"app-0": [Moment(30)]}, "app-1": {"app-1": [Moment(25)]}}) == {
        "app-0": [30], "app-1": [25]
    }  # fmt: skip
    it.clock.advance(STEP_MS)
    assert it.news({}) == {}
    assert it.asker.after == [{"app-0": 0, "app-1": 0}, {"app-0": 20, "app-1": 0}, {"app-0": 30, "app-1": 25}]


def test_an_instance_has_the_name_of_its_pod() -> None:
    it = Followed()
    found = it.news({"app-0": {"app-0-1": [Moment(10)]}, "app-1": {"app-2": [Moment(10)], "x" * 500: [Moment(10)]}})
    assert set(found) == {"app-0-1", "app-1 app-2", f"app-1 {'x' * 94}"}


def test_there_is_a_bound_to_what_pods_make_the_page_draw() -> None:
    it = Followed()
    many = {f"app-0-{number}": [Moment(10)] for number in range(2 * MOST_INSTANCES)}
    assert len(it.news({"app-0": many})) == MOST_INSTANCES
