"""An instance is closed before all of its threads have been started, as a signal may do."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from streamsapp import ClientState, StreamsRuntime
from streamsapp.runtime.housekeeping import PeriodicThread
from task_parts import config, through


def test_an_instance_that_is_closed_while_its_threads_start_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = StreamsRuntime(through(), config(bootstrap_servers="127.0.0.1:1", state_dir=str(tmp_path)))
    closing = threading.Thread(target=instance.close, daemon=True)
    begin = PeriodicThread.start

    def closed_first(thread: PeriodicThread) -> None:
        if closing.ident is None:
            closing.start()
        polling = instance._components.polling  # type: ignore[union-attr]
        if polling.ident is not None:
            polling.join()
        begin(thread)

    monkeypatch.setattr(PeriodicThread, "start", closed_first)
    instance.start()
    closing.join(60)

    assert instance.state is ClientState.NOT_RUNNING
