"""An operator that gives its Lease back does not act any more."""

from __future__ import annotations

import threading

from memory_api import MemoryApi
from streamsapp.clock import SystemClock
from streamsapp_operator.kube.lease import Lease
from streamsapp_operator.steady_clock import SteadyClock


def test_a_lease_that_is_given_back_is_not_held_and_not_lost() -> None:
    api, lost = MemoryApi(), list[str]()
    lease = Lease(
        api, "ns", "operator", "me", SteadyClock(SystemClock()), seconds=600, on_lost=lambda: lost.append("lost")
    )
    assert not lease.held
    assert lease.acquire(threading.Event())
    assert lease.held
    lease.release()
    assert not lease.held
    assert lost == []
    assert api.objects["Lease", "operator"]["spec"]["holderIdentity"] == ""
