"""Waits until the operator can begin: until StreamsApps can be listed in the namespaces that it watches.

Called by ``__main__`` on the main thread. A namespace that is gone takes the operator's Role along, so it looks like a
namespace without the right. Either is reported and passed over as long as there is another one: applications there must
not stand still for it. Its watches go on trying, so it is watched as soon as it may be read again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence

from streamsapp_operator.kube import ApiError, Client, Forbidden, Gone, Object
from streamsapp_operator.kube.kinds import STREAMS_APP

#: Seconds between two checks whether StreamsApps can be listed.
_SERVED_SECONDS = 2.0

log = logging.getLogger(__name__)


def wait_served(client: Client, namespaces: Sequence[str], stop: threading.Event) -> frozenset[str] | None:
    """Waits until StreamsApps can be listed, and reports what is missing. Returns the namespaces that are passed over;
    ``None`` when asked to end before. No ``namespaces`` stand for all."""
    complaint = ""
    while not stop.is_set():
        try:
            missing = _missing(client, namespaces)
            for namespace, said in missing.items():
                log.error("namespace %s is passed over until it is there and may be read: %s", namespace, said)
            return frozenset(missing)
        except Gone:
            said = "the cluster has no StreamsApp resource: install the chart, or apply crds/streamsapps.yaml"
        except ApiError as error:
            said = str(error)
        if said != complaint:
            log.error("cannot begin: %s", said)
            complaint = said
        stop.wait(_SERVED_SECONDS)
    return None


def served_apps(client: Client, namespaces: Sequence[str]) -> Iterator[Object]:
    """Yields the applications of the namespaces that may be read; no ``namespaces`` stand for all."""
    for namespace in namespaces or (None,):
        try:
            yield from client.list(STREAMS_APP, namespace)
        except Forbidden as error:
            log.debug("the applications of namespace %s are not known: %s", namespace, error)


def _missing(client: Client, namespaces: Sequence[str]) -> dict[str, str]:
    """Returns the namespaces that may not be read, each with the reason; raises that of the last one if there is no
    other."""
    if not namespaces:
        client.list(STREAMS_APP, None, metadata_only=True)
    missing: dict[str, str] = {}
    for namespace in namespaces:
        try:
            client.list(STREAMS_APP, namespace, metadata_only=True)
        except Forbidden as error:
            missing[namespace] = str(error)
            if len(missing) == len(namespaces):
                raise
    return missing
