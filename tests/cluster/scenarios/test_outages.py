"""Applications while something that others take for granted is away."""

from __future__ import annotations

import time

import pytest

from cluster_app import kill
from cluster_world import WORDCOUNT, Running

_OUTAGE = 60.0


def test_a_pod_that_is_killed_costs_no_count_and_nobody_else_is_touched(wordcount: Running) -> None:
    """Its members leave the group by the word of the node's agent, long before their sessions end."""
    before, taken_out = wordcount.app.uids(), _taken_out(wordcount)
    victim = wordcount.app.pods()[f"{WORDCOUNT}-1"]
    restarts = victim["status"]["containerStatuses"][0]["restartCount"]

    kill(victim)

    wordcount.app.wait(lambda: _taken_out(wordcount) - taken_out, "a pod that took its members out of the group")
    wordcount.app.wait(
        lambda: wordcount.app.pods()[f"{WORDCOUNT}-1"]["status"]["containerStatuses"][0]["restartCount"] > restarts,
        "a container that was started again",
    )
    wordcount.app.wait_settled()
    assert wordcount.app.uids() == before
    assert wordcount.observer.removals == []
    wordcount.load.check()


def _taken_out(running: Running) -> set[str]:
    """The members of ended containers that a pod has taken out of the group, as the operator logs them."""
    found: set[str] = set()
    for name in running.world.operator_pods():
        log = running.world.kubectl("logs", name, f"--namespace={running.app.namespace}", "--tail=-1")
        for line in log.splitlines():
            _, told, members = line.partition("took out the members of containers that ended: ")
            found |= {members} if told else set()
    return found


@pytest.mark.long
@pytest.mark.timeout(900, func_only=True)
def test_words_are_counted_while_the_api_server_is_away_and_a_restart_works_afterwards(wordcount: Running) -> None:
    before = wordcount.app.uids()

    with wordcount.world.api_server_away():
        ends = time.monotonic() + _OUTAGE
        while time.monotonic() < ends:
            wordcount.load.wait_for_counts(timeout=30)
            time.sleep(1)
    assert wordcount.app.wait(wordcount.app.uids, "the API server") == before

    wordcount.app.ask_for_restart()
    # The kubelet looks again for what pods need only after a pause. The pause grew while no API server answered.
    assert wordcount.app.wait_replaced(before, timeout=240)["rollout"]["phase"] == "Complete"
    wordcount.load.check()
