"""Streams of what happens, for a page: of all applications, or of one of them. A stream watches with its viewer's token
alone, and nothing of it is kept for another.

Each runs on the thread of its connection. A watch is short, so that a viewer who lost a right sees no more within
seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from streamsapp.web.history import history_document
from streamsapp_operator.console.app_page import app_page
from streamsapp_operator.console.app_row import COLUMNS, app_row, key_of
from streamsapp_operator.console.look import Look
from streamsapp_operator.console.tables import ROWS, PageTable
from streamsapp_operator.console.viewer import Viewer, words
from streamsapp_operator.kube.errors import ApiError, Forbidden, Gone, Unauthorized
from streamsapp_operator.kube.kinds import STREAMS_APP, Object
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.observe import PodAsker
from streamsapp_operator.observe.exchange import Address
from streamsapp_operator.observe.pod_histories import PodHistories
from streamsapp_operator.observe.pod_observer import PodObserver
from streamsapp_operator.spec_reader import application_id_of
from streamsapp_operator.steady_clock import SteadyClock

#: Seconds: of a watch, of the least time between two looks at pods, and after an error.
WATCH_SECONDS, LEAST_SECONDS, FAULT_SECONDS = 4, 1.0, 4.0

T = TypeVar("T")
Documents = Generator[dict[str, Any] | None, None, None]


def applications(viewer: Viewer, namespace: str | None, watched: Sequence[str]) -> Documents:
    """Yields the rows of all applications, then of each that changed or went. ``watched``: the operator's namespaces;
    none stands for all."""
    pause = threading.Event()
    while True:
        try:
            yield from _followed(viewer, namespace, watched)
            pause.wait(LEAST_SECONDS)
        except Unauthorized:
            return
        except ApiError as error:
            yield {"fault": words(error)}
            pause.wait(FAULT_SECONDS)


def _followed(viewer: Viewer, namespace: str | None, watched: Sequence[str]) -> Documents:
    """Yields a list and its changes, until the API server does not remember so far back."""
    listed, version = viewer.client.list_at(STREAMS_APP, namespace, None)
    mine = [each for each in listed if not watched or each["metadata"]["namespace"] in watched]
    table = PageTable("applications", "Applications", COLUMNS, [app_row(each) for each in mine[:ROWS]])
    more = len(mine) - ROWS
    yield {"table": table.document(), "leftOut": max(0, more)}
    while True:
        try:
            for kind, found in viewer.client.watch(STREAMS_APP, namespace, None, version, WATCH_SECONDS):
                version = found["metadata"]["resourceVersion"]
                if kind == "BOOKMARK" or (watched and found["metadata"]["namespace"] not in watched):
                    continue
                key = key_of(found)
                yield {"row": [key, None] if kind == "DELETED" else app_row(found).document()}
        except Gone:
            return
        yield None


@dataclass(frozen=True, slots=True)
class LookTools:
    """The tools of looks at applications, beside a viewer."""

    asker: PodAsker
    clock: SteadyClock


def application(viewer: Viewer, namespace: str, name: str, tools: LookTools) -> Documents:
    """Yields the page of one application, anew when it changes, and every few seconds for what its pods say."""
    pause, pods = threading.Event(), PodObserver(tools.asker)
    histories = PodHistories(tools.asker, tools.clock)
    while True:
        try:
            document = viewer.app(namespace, name)
            look, asked = _look(viewer, document, pods, tools)
            yield {"page": app_page(look), "history": history_document(histories.news(*asked))}
            pause.wait(LEAST_SECONDS)
            _wait_for_change(viewer, document)
        except Unauthorized:
            return
        except ApiError as error:
            yield {"fault": words(error)}
            pause.wait(FAULT_SECONDS)


def _wait_for_change(viewer: Viewer, document: Object) -> None:
    metadata = document["metadata"]
    changes = viewer.client.watch(
        STREAMS_APP,
        metadata["namespace"],
        None,
        metadata["resourceVersion"],
        WATCH_SECONDS,
        fields=f"metadata.name={metadata['name']}",
    )
    try:
        with closing(changes) as events:
            for kind, _ in events:
                if kind != "BOOKMARK":
                    return
    except Gone:
        return  # it is read anew


def _look(
    viewer: Viewer, document: Object, observer: PodObserver, tools: LookTools
) -> tuple[Look, tuple[dict[str, Address], Sequence[str]]]:
    """Looks once; returns also the pods that the viewer may ask, and the tokens for it."""
    metadata, notes = document["metadata"], list[str]()
    namespace, name = metadata["namespace"], metadata["name"]
    pods = _seen(notes, "pods", lambda: viewer.pods(namespace, name))
    reports = "what its pods tell of tasks and snapshots"
    tokens = _seen(notes, reports, lambda: viewer.tokens(namespace, name)) if pods else None
    events = _seen(notes, "events", lambda: viewer.events(namespace, name, metadata["uid"]))
    seen: tuple[PodSeen, ...] = ()
    driver: PodSeen | None = None
    addresses: dict[str, Address] = {}
    if pods:
        driver, seen = observer.observe(pods, name, application_id_of(document), tokens or ())
        addresses = observer.addresses(pods, name)
    look = Look(
        at=tools.clock.now(),
        document=document,
        pods=pods,
        seen=seen,
        driver=driver,
        events=events or (),
        notes=notes,
        may_change=viewer.client.may("patch", STREAMS_APP, namespace),
    )
    return look, (addresses, tokens or ())


def _seen(notes: list[str], what: str, read: Callable[[], Sequence[T]]) -> Sequence[T] | None:
    """Returns what the viewer may see; a missing right is reported, and the rest is seen without it."""
    try:
        return read()
    except Forbidden as error:
        notes.append(f"You may not see {what}: {words(error)}")
        return None
