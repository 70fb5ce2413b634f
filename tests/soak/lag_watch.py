"""Asks broker and instances in turn, on a thread of its own, and holds what they say against each other."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterable
from typing import Any

from application import Topics
from fleet import Instance
from lag_ledger import LagLedger
from topic_reader import Cluster

_PERIOD = 0.4
#: An instance or a broker that does not answer is asked again in the next round.
_TIMEOUT = 1.0


def status_of(instance: Instance, timeout: float | None = None) -> dict[str, Any] | None:
    """The document of ``/status``; ``None`` if there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", instance.http_port, timeout=timeout or _TIMEOUT)
    try:
        connection.request("GET", "/status")
        answer = connection.getresponse()
        document = json.loads(answer.read())
        return document if answer.status == http.client.OK else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


class LagWatch:
    """Fills a ledger until it is stopped."""

    def __init__(self, cluster: Cluster, topics: Topics, instances: Iterable[Instance]) -> None:
        self.ledger = LagLedger()
        self._cluster = cluster
        self._topics = topics
        self._instances = list(instances)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag-watch", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Stop asking."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(_PERIOD):
            committed = self._cluster.ends(self._topics.changelogs, committed=True, timeout=_TIMEOUT)
            seen_at = time.time() * 1000
            written = self._cluster.ends(self._topics.changelogs, committed=False, timeout=_TIMEOUT)
            self.ledger.observe_ends(seen_at, committed, written)
            for instance in self._instances:
                if instance.awake and (status := status_of(instance)) is not None:
                    self.ledger.check(instance.name, status)
