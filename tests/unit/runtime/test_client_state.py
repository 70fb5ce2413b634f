"""The states of an instance, who hears of them, and waiting for one."""

from __future__ import annotations

import threading

import pytest

from streamsapp import ClientState
from streamsapp.runtime.client_state import StateHolder

S = ClientState
SOON = 60.0

#: A way from the start to each state.
WAYS = {
    S.CREATED: [],
    S.REBALANCING: [S.REBALANCING],
    S.RUNNING: [S.REBALANCING, S.RUNNING],
    S.PENDING_SHUTDOWN: [S.PENDING_SHUTDOWN],
    S.NOT_RUNNING: [S.PENDING_SHUTDOWN, S.NOT_RUNNING],
    S.PENDING_ERROR: [S.PENDING_ERROR],
    S.ERROR: [S.PENDING_ERROR, S.ERROR],
}
LEGAL = {
    S.CREATED: {S.REBALANCING, S.PENDING_SHUTDOWN, S.PENDING_ERROR},
    S.REBALANCING: {S.RUNNING, S.PENDING_SHUTDOWN, S.PENDING_ERROR},
    S.RUNNING: {S.REBALANCING, S.PENDING_SHUTDOWN, S.PENDING_ERROR},
    S.PENDING_SHUTDOWN: {S.NOT_RUNNING, S.PENDING_ERROR},
    S.PENDING_ERROR: {S.ERROR},
    S.NOT_RUNNING: set(),
    S.ERROR: set(),
}


def at(state: ClientState) -> StateHolder:
    holder = StateHolder()
    for step in WAYS[state]:
        assert holder.to(step)
    return holder


@pytest.mark.parametrize("target", S)
@pytest.mark.parametrize("source", S)
def test_a_change_happens_only_if_it_is_legal(source: ClientState, target: ClientState) -> None:
    holder = at(source)
    heard: list[tuple[ClientState, ClientState]] = []
    holder.listener = lambda new, old: heard.append((new, old))

    changed = holder.to(target)

    assert changed == (target in LEGAL[source])
    assert holder.state is (target if changed else source)
    assert heard == ([(target, source)] if changed else [])


def test_a_waiting_thread_hears_of_the_end() -> None:
    holder = at(S.RUNNING)
    waited: list[bool] = []
    waiter = threading.Thread(target=lambda: waited.append(holder.wait_for(lambda state: state.ended, SOON)))
    waiter.start()

    holder.to(S.PENDING_SHUTDOWN)
    holder.to(S.NOT_RUNNING)
    waiter.join(SOON)

    assert waited == [True]


def test_waiting_in_vain_ends_with_the_time_out() -> None:
    assert not at(S.RUNNING).wait_for(lambda state: state.ended, 0.001)


def test_closing_and_closed_states_are_told_apart() -> None:
    assert {state for state in S if state.ended} == {S.NOT_RUNNING, S.ERROR}
    assert {state for state in S if state.ending} == {S.NOT_RUNNING, S.ERROR, S.PENDING_SHUTDOWN, S.PENDING_ERROR}


def test_a_listener_that_raises_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    holder = at(S.RUNNING)

    def listener(new: ClientState, old: ClientState) -> None:
        raise ValueError("a bug")

    holder.listener = listener

    assert holder.to(S.PENDING_SHUTDOWN)
    assert holder.to(S.NOT_RUNNING)
    assert holder.wait_for(lambda state: state.ended, 0)
    assert "the state listener raised when the state became PENDING_SHUTDOWN" in caplog.text


def test_the_listener_hears_of_changes_in_their_order_whichever_threads_make_them() -> None:
    holder = at(S.REBALANCING)
    heard: list[ClientState] = []
    told, go_on = threading.Event(), threading.Event()

    def listener(new: ClientState, old: ClientState) -> None:
        if new is S.RUNNING:
            told.set()
            assert go_on.wait(SOON)
        heard.append(new)
        if new is S.PENDING_SHUTDOWN:
            holder.to(S.NOT_RUNNING)

    holder.listener = listener
    runs = threading.Thread(target=holder.to, args=(S.RUNNING,))
    runs.start()
    assert told.wait(SOON)

    assert holder.to(S.PENDING_SHUTDOWN)
    assert not holder.wait_for(lambda state: state.ending, 0)
    go_on.set()

    assert holder.wait_for(lambda state: state.ended, SOON)
    runs.join(SOON)
    assert heard == [S.RUNNING, S.PENDING_SHUTDOWN, S.NOT_RUNNING]


def test_a_listener_that_ends_its_thread_is_told_of_the_next_change() -> None:
    holder = at(S.RUNNING)
    heard: list[ClientState] = []

    def listener(new: ClientState, old: ClientState) -> None:
        heard.append(new)
        raise SystemExit

    holder.listener = listener
    for state in (S.PENDING_SHUTDOWN, S.NOT_RUNNING):
        with pytest.raises(SystemExit):
            holder.to(state)

    assert heard == [S.PENDING_SHUTDOWN, S.NOT_RUNNING]
