"""``StreamsRuntime`` as an application uses it, over components that do nothing but end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamsapp import ClientState, StreamsRuntime
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.runtime import components, instance as module, state_components
from streamsapp.runtime.client_state import StateHolder
from streamsapp.runtime.directory_lock import DirectoryLock
from task_parts import config, through

#: Nothing here takes long unless it hangs, or the machine stands still for a moment.
SOON = 60.0


class FakeRequests:
    """Remembers whether to close and whether to pause."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.paused = False

    def close(self, within: float, *, leave_group: bool) -> None:
        self.closed.set()

    def pause(self, *, paused: bool) -> None:
        self.paused = paused


class FakePolling(threading.Thread):
    """Runs until it is closed; ``then`` is the last it does before the instance is over."""

    def __init__(self, components: FakeComponents) -> None:
        super().__init__(name="polling", daemon=True)
        self._components = components
        self.then: Callable[[], object] = lambda: None

    def run(self) -> None:
        self._components.state.to(ClientState.REBALANCING)
        self._components.requests.closed.wait(SOON)
        self.then()
        failed = self._components.life.error is not None
        self._components.state.to(ClientState.PENDING_ERROR if failed else ClientState.PENDING_SHUTDOWN)
        self._components.state.to(ClientState.ERROR if failed else ClientState.NOT_RUNNING)


class FakeLife:
    error: BaseException | None = None


class FakeComponents:
    """A polling thread and one more."""

    made: list[FakeComponents]
    refuses: Exception | None = None
    #: Says whether another instance uses the state directory.
    locked = False
    #: Runs while an instance is being put together.
    meanwhile: threading.Thread | None = None

    def __init__(
        self,
        topology: object,
        settings: object,
        clock: object,
        state: StateHolder,
        extensions: object,
        clients: ExitStack,
        history: object,
    ) -> None:
        self.closed = False
        FakeComponents.made.append(self)
        clients.callback(self._close)
        if FakeComponents.refuses is not None:
            raise FakeComponents.refuses
        if FakeComponents.meanwhile is not None:
            FakeComponents.meanwhile.start()
            FakeComponents.meanwhile.join(0.05)
        self.state = state
        self.stores = SimpleNamespace(lock=self._lock, remote=None)
        self.life = FakeLife()
        self.requests = FakeRequests()
        self.polling = FakePolling(self)
        self.other = threading.Thread(target=self._other, daemon=True)
        self.user_code: Callable[[], object] = lambda: None
        self.threads = [self.polling, self.other]

    def _lock(self) -> None:
        if FakeComponents.locked:
            raise ConfigError("another instance uses the directory")

    def _close(self) -> None:
        self.closed = True

    def _other(self) -> None:
        self.state.wait_for(lambda state: state is ClientState.REBALANCING, SOON)
        self.user_code()

    def start(self) -> None:
        self.polling.start()


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> StreamsRuntime:
    FakeComponents.made = []
    FakeComponents.meanwhile = None
    monkeypatch.setattr(FakeComponents, "refuses", None)
    monkeypatch.setattr(FakeComponents, "locked", False)
    monkeypatch.setattr(module, "Components", FakeComponents)
    return StreamsRuntime(through(), config())


def test_an_instance_is_started_once(it: StreamsRuntime) -> None:
    it.start()

    with pytest.raises(StreamsError, match="make a new StreamsRuntime"):
        it.start()

    assert len(FakeComponents.made) == 1
    assert it.close(SOON)
    with pytest.raises(StreamsError, match="make a new StreamsRuntime"):
        it.start()


def test_an_instance_that_a_client_refused_can_be_started_when_that_is_put_right(it: StreamsRuntime) -> None:
    FakeComponents.refuses = ConfigError("no such property")
    with pytest.raises(ConfigError):
        it.start()
    assert it.state is ClientState.CREATED

    FakeComponents.refuses = None
    it.start()
    assert it.close(SOON)


def test_an_instance_whose_directory_is_in_use_closes_its_consumer_and_can_be_started_later(it: StreamsRuntime) -> None:
    FakeComponents.locked = True
    with pytest.raises(ConfigError):
        it.start()
    assert [each.closed for each in FakeComponents.made] == [True]

    FakeComponents.locked = False
    it.start()
    assert not FakeComponents.made[-1].closed
    assert it.close(SOON)


def test_an_instance_that_cannot_be_put_together_closes_the_clients_made_until_then(it: StreamsRuntime) -> None:
    FakeComponents.refuses = PermissionError("the directory is not writable")

    with pytest.raises(PermissionError):
        it.start()

    assert [each.closed for each in FakeComponents.made] == [True]


def test_an_instance_that_a_later_client_refuses_leaves_no_client_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made, closed = [], []

    class Watched(PartitionConsumer):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

        def close(self) -> None:
            closed.append(self)
            super().close()

    for user in (components, state_components):
        monkeypatch.setattr(user, "PartitionConsumer", Watched)
    settings = config(kafka={"main.consumer.security.protocol": "SSL", "main.consumer.ssl.ca.location": "/none"})

    with pytest.raises(ConfigError):
        StreamsRuntime(through(), settings).start()

    assert made
    assert closed == made[::-1]


def test_local_state_is_deleted_before_the_start_and_after_the_end_only(
    it: StreamsRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "app"
    monkeypatch.setattr(it, "_config", config(state_dir=tmp_path))
    it.clean_up()  # nothing is there
    for ended in (False, True):
        (state / "0_0").mkdir(parents=True)
        it.clean_up()
        assert not state.exists()
        if not ended:
            it.start()
            with pytest.raises(StreamsError, match="clean_up deletes the state of a running instance"):
                it.clean_up()
            assert it.close(SOON)


def test_the_state_of_another_instance_is_not_deleted(
    it: StreamsRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it, "_config", config(state_dir=tmp_path))
    other = DirectoryLock(tmp_path / "app")
    with pytest.raises(ConfigError, match="another instance uses"):
        it.clean_up()
    other.release()
    it.clean_up()
    assert not (tmp_path / "app").exists()


def test_an_instance_that_was_never_started_can_be_closed_again_and_again_but_not_started(it: StreamsRuntime) -> None:
    assert it.close()
    assert it.close()

    assert it.state is ClientState.NOT_RUNNING
    assert it.wait(0) is None
    with pytest.raises(StreamsError, match="can be started once"):
        it.start()


def test_an_instance_that_is_closed_while_it_starts_ends(it: StreamsRuntime) -> None:
    answers: list[bool] = []
    FakeComponents.meanwhile = threading.Thread(target=lambda: answers.append(it.close(SOON)))

    it.start()
    FakeComponents.meanwhile.join(SOON)

    assert answers == [True]
    assert it.state is ClientState.NOT_RUNNING
    assert FakeComponents.made[0].requests.closed.is_set()


@pytest.mark.parametrize("timeout", [SOON, timedelta(seconds=SOON)])
def test_closing_waits_for_the_end(it: StreamsRuntime, timeout: Any) -> None:
    it.start()

    assert it.close(timeout)

    assert it.state is ClientState.NOT_RUNNING
    assert it.close(timeout), "closing twice is no mistake"


def test_closing_that_takes_too_long_says_so_and_goes_on(it: StreamsRuntime) -> None:
    it.start()
    release = threading.Event()
    FakeComponents.made[0].polling.then = lambda: release.wait(SOON)

    assert not it.close(0.01)
    assert it.state is ClientState.PENDING_SHUTDOWN

    release.set()
    assert it.close(SOON)


def test_closing_from_a_state_listener_does_not_wait_for_the_thread_that_called_it(it: StreamsRuntime) -> None:
    answers: list[bool] = []

    def close_at_once(new: ClientState, old: ClientState) -> None:
        if new is ClientState.REBALANCING:
            answers.append(it.close(SOON))

    it.set_state_listener(close_at_once)
    it.start()

    assert it.wait(SOON) is None
    assert it.state is ClientState.NOT_RUNNING
    assert answers == [False]


def test_closing_from_user_code_does_not_wait_for_the_thread_that_runs_it(it: StreamsRuntime) -> None:
    answers: list[bool] = []
    it.start()
    components = FakeComponents.made[0]
    components.user_code = lambda: answers.append(it.close(SOON))
    components.polling.then = lambda: components.other.join(SOON / 2)

    components.other.start()

    assert it.wait(SOON) is None
    assert it.state is ClientState.NOT_RUNNING
    assert answers == [False]


def test_what_ended_the_instance_can_be_asked_for(it: StreamsRuntime) -> None:
    it.start()
    error = StreamsError("lost")
    FakeComponents.made[0].life.error = error

    it.close(SOON)

    assert it.wait() is error
    assert it.state is ClientState.ERROR


def test_leaving_a_with_block_closes(it: StreamsRuntime) -> None:
    with it:
        assert not it.state.ended

    assert it.state is ClientState.NOT_RUNNING


def test_pausing_needs_a_started_instance(it: StreamsRuntime) -> None:
    with pytest.raises(StreamsError, match="call start"):
        it.pause()

    it.start()
    it.pause()
    assert FakeComponents.made[0].requests.paused
    it.resume()
    assert not FakeComponents.made[0].requests.paused
    it.close(SOON)


def test_an_instance_is_ready_when_it_runs_and_healthy_before_it_starts(it: StreamsRuntime) -> None:
    assert it.ready() == (False, "state is CREATED")
    assert it.healthy() == (True, "state is CREATED")
    assert it.tasks() == []
    assert it.lags() == {}


def test_a_snapshot_needs_remote_state(it: StreamsRuntime) -> None:
    with it, pytest.raises(StreamsError, match="set remote_state"):
        it.snapshot(timedelta(seconds=1))
