"""Has a pod take members out of its application's group whose containers have ended, so that their tasks do not stand
still until the session ends (decision 50).

There is one for each application, called on the thread of its loop. The operator has no access to Kafka: it passes on
what Kubernetes' node agent has reported, with the token of the application. It only names members that the ended
container has named itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from streamsapp_operator.observe.observer import AppObservation
from streamsapp_operator.observe.pod_status import PodAsker

log = logging.getLogger(__name__)

#: Members that are remembered: a pod's status shows an end until the next one.
_MOST = 1000


class EndedContainers:
    """Remembers which members are out."""

    def __init__(self, asker: PodAsker) -> None:
        self._asker = asker
        self._out: dict[str, None] = {}

    def take_out(self, observation: AppObservation, tokens: Sequence[str]) -> None:
        """Asks one pod after the other until one has done it. The next reconcile tries again if none has."""
        new = [each for each in observation.ended_members if each not in self._out]
        for address in observation.ready_at if new else ():
            if self._asker.take_out(address, new, tokens):
                log.info("%s took out the members of containers that ended: %s", address, ", ".join(new))
                self._out |= dict.fromkeys(new)
                for each in list(self._out)[:-_MOST]:
                    del self._out[each]
                return
