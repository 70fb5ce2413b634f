"""Observes the pods of one application: each as the API server has it, with its own report.

Called by the observer on the thread of the application's loop, and by the console on the viewer's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamsapp_operator.children.names import EXECUTOR, ROLE_LABEL, driver_name
from streamsapp_operator.kube.kinds import Object, label
from streamsapp_operator.model.observed_state import PodReport, PodSeen
from streamsapp_operator.observe.clock_offsets import ClockOffsets
from streamsapp_operator.observe.exchange import Address
from streamsapp_operator.observe.executors import word_of_driver
from streamsapp_operator.observe.pod_status import PodAsker
from streamsapp_operator.observe.pods import address_of, ordinal_of, pod_seen


class PodObserver:
    """Observes the same application again and again."""

    def __init__(self, asker: PodAsker) -> None:
        self._asker = asker
        self._offsets = ClockOffsets()

    def observe(
        self, listed: Sequence[Object], app: str, application_id: str, tokens: Sequence[str]
    ) -> tuple[PodSeen | None, tuple[PodSeen, ...]]:
        """Returns the driver, if there is one, and the pods that run tasks; ``listed`` has the application's label."""
        numbered = {ordinal: pod for pod in listed if (ordinal := ordinal_of(pod, app)) is not None}
        driver = next((pod for pod in listed if ordinal_of(pod, driver_name(app)) == 0), None)
        executors = {pod["metadata"]["name"]: pod for pod in numbered.values() if label(pod, ROLE_LABEL) == EXECUTOR}
        every = [*numbered.values(), *(() if driver is None else [driver])]
        asked = [pod for pod in every if pod["metadata"]["name"] not in executors]
        addresses = {pod["metadata"]["name"]: it for pod in asked if (it := address_of(pod)) is not None}
        answers = self._asker.ask_all(addresses, application_id, tokens)
        self._offsets.keep([pod["metadata"]["uid"] for pod in every])
        head = None if driver is None else self._pod(driver, 0, answers)
        answers |= {name: word_of_driver(head, pod) for name, pod in executors.items()}
        return head, tuple(self._pod(pod, ordinal, answers) for ordinal, pod in sorted(numbered.items()))

    def addresses(self, listed: Sequence[Object], app: str) -> dict[str, Address]:
        """Returns the addresses of the pods that run tasks."""
        mine = (pod for pod in listed if ordinal_of(pod, app) is not None and label(pod, ROLE_LABEL) != EXECUTOR)
        return {pod["metadata"]["name"]: found for pod in mine if (found := address_of(pod)) is not None}

    def _pod(self, pod: Object, ordinal: int, answers: dict[str, PodReport | str]) -> PodSeen:
        phase = pod["status"].get("phase") or "Pending"
        answer = answers.get(pod["metadata"]["name"], f"it does not run: its phase is {phase}")
        if isinstance(answer, PodReport):
            answer = self._offsets.bounded(pod["metadata"]["uid"], answer)
        return pod_seen(pod, ordinal, answer)
