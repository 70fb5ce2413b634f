"""The operator reports a namespace that is gone, and passes it over; applications of others run on."""

from __future__ import annotations

import threading

import pytest

from memory_api import MemoryApi
from streamsapp.clock import SystemClock
from streamsapp_operator.kube import Forbidden, Object, ResourceKind
from streamsapp_operator.kube.cache import Cache
from streamsapp_operator.kube.informer import Informers, Watched
from streamsapp_operator.kube.kinds import POD, STREAMS_APP
from streamsapp_operator.served_namespaces import wait_served
from streamsapp_operator.steady_clock import SteadyClock
from streamsapp_operator.watch_health import Lister, WatchAge, key_of


class NamespacedApi(MemoryApi):
    """Of namespaces that are gone it says that their objects may not be listed."""

    def __init__(self, *gone: str) -> None:
        super().__init__()
        self.gone = set(gone)
        #: They are made after so many lists.
        self.away_for = 1000

    def list(
        self, kind: ResourceKind, namespace: str | None, labels: str | None = None, *, metadata_only: bool = False,
        fields: str | None = None, most: int | None = None,
    ) -> list[Object]:  # fmt: skip
        self.away_for -= 1
        if self.away_for < 0:
            self.gone.clear()
        if namespace in self.gone:
            raise Forbidden(f"the operator may not list {kind.plural} in namespace {namespace}")
        return [it for it in super().list(kind, None) if namespace in {None, it["metadata"]["namespace"]}]


def test_a_namespace_that_is_gone_is_told_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    stop = threading.Event()
    assert wait_served(NamespacedApi("gone"), ("gone", "ns"), stop) == frozenset({"gone"})
    assert "namespace gone is passed over until it is there and may be read: the operator may not list" in caplog.text
    assert wait_served(NamespacedApi("gone"), (), stop) == frozenset()


def test_waits_while_no_namespace_may_be_read(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamsapp_operator.served_namespaces._SERVED_SECONDS", 0.0)
    api = NamespacedApi("gone", "away")
    api.away_for = 4
    assert wait_served(api, ("gone", "away"), threading.Event()) == frozenset()
    assert caplog.text.count("cannot begin: the operator may not list") == 1
    stopped = threading.Event()
    stopped.set()
    assert wait_served(api, ("ns",), stopped) is None


def test_only_namespaces_that_are_passed_over_are_not_waited_for_and_not_planned_by() -> None:
    clock = SteadyClock(SystemClock())
    informers = Informers(MemoryApi(), [Watched(POD)], ("ns", "gone"), Cache([]), lambda kind, document: None, clock)
    listed, _ = informers._all
    listed.synced.set()
    assert informers.wait_synced(threading.Event(), {"gone"})
    assert informers.have_synced("ns")
    assert not informers.have_synced("gone")
    stopped = threading.Event()
    stopped.set()
    assert not informers.wait_synced(stopped)


def test_watches_of_other_namespaces_are_checked_though_one_is_gone() -> None:
    api, clock = NamespacedApi("gone"), SteadyClock(SystemClock())
    app = api.put({"kind": STREAMS_APP.name, "metadata": {"name": "app"}})
    lister = Lister(api, ("gone", "ns"), WatchAge(0.0), clock)
    assert list(lister._versions(STREAMS_APP)) == [key_of(STREAMS_APP, app["metadata"])]
