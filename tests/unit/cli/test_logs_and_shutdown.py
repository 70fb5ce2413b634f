"""Log lines for machines, and what signals do."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from streamsapp.cli import shutdown
from streamsapp.cli.shutdown import closing_on_signals
from streamsapp.errors import ImmediateExit
from streamsapp.log_format import JsonFormatter
from streamsapp.record import TaskId, TopicPartition

#: Longer than a thread stands still on a busy machine, in seconds.
_PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _a_slow_way_out_does_not_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has other tests to run. The test that such a process ends has one of its own."""
    monkeypatch.setattr(shutdown, "_WAY_OUT", _PATIENCE)


def test_closing_that_does_not_end_is_left_at_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    never = threading.Event()

    with pytest.raises(ImmediateExit), closing_on_signals(never.wait, within=0.1):  # noqa: PT012 - both wait
        signal.raise_signal(signal.SIGTERM)
        never.wait(_PATIENCE)

    assert "closing did not end within" in caplog.text


def test_a_process_that_does_not_get_out_is_ended() -> None:
    program = """
import os, signal, threading
from streamsapp.cli import shutdown
from streamsapp.cli.shutdown import closing_on_signals
shutdown._LAST_WORD = 60.0  # the thread that says it may have to wait for the processor
never = threading.Event()
with closing_on_signals(never.wait, within=0.1):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        never.wait()
    finally:
        never.wait()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, "leaving did not end within" in ended.stderr) == (1, True), ended.stderr


def test_a_json_line_holds_the_traceback_and_stays_one_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("app", logging.ERROR, __file__, 1, "lost %s", ("x",), sys.exc_info())
    record.created, record.msecs = 1_700_000_000.25, 250.0
    line = JsonFormatter().format(record)
    assert "\n" not in line
    read = json.loads(line)
    assert (read["time"], read["level"], read["message"]) == ("2023-11-14T22:13:20.250Z", "ERROR", "lost x")
    assert read["exception"].endswith("ValueError: two\nlines")


@pytest.mark.parametrize(
    ("arguments", "extra", "fields"),
    [
        ((TaskId(0, 3),), {}, {"task": "0_3"}),
        ((TopicPartition("orders", 2),), {}, {"topic": "orders", "partition": 2}),
        (("x",), {"task": TaskId(1, 0), "topic": "t", "partition": 0, "offset": 0},
         {"task": "1_0", "topic": "t", "partition": 0, "offset": 0}),
        (("x",), {"topic": None, "offset": None}, {}),
        (({"a": 1},), {}, {}),
    ],
)  # fmt: skip
def test_a_json_line_has_fields_of_what_it_is_about(
    arguments: tuple[object, ...], extra: dict[str, object], fields: dict[str, object]
) -> None:
    record = logging.LogRecord("app", logging.INFO, __file__, 1, "about %s", arguments, None)
    vars(record).update(extra)
    read = json.loads(JsonFormatter().format(record))
    assert {name: read[name] for name in read.keys() - {"time", "level", "logger", "thread", "message"}} == fields


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_closes_in_good_order(number: signal.Signals) -> None:
    closed = threading.Event()
    with closing_on_signals(closed.set):
        os.kill(os.getpid(), number)
        assert closed.wait(_PATIENCE)


def test_leaving_waits_for_the_close_that_was_begun() -> None:
    entered, finish, done = threading.Event(), threading.Event(), []

    def close() -> None:
        entered.set()
        finish.wait(_PATIENCE)
        done.append(True)

    with closing_on_signals(close):
        os.kill(os.getpid(), signal.SIGTERM)
        assert entered.wait(_PATIENCE)
        threading.Timer(0.05, finish.set).start()
    assert done == [True]


def test_the_second_signal_does_not_wait() -> None:
    never = threading.Event()
    with pytest.raises(ImmediateExit), closing_on_signals(never.wait, one_press=0):  # noqa: PT012 - both signals belong together
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        never.wait(_PATIENCE)
    never.set()


def test_a_signal_that_is_sent_twice_at_once_is_one() -> None:
    closed = threading.Event()
    with closing_on_signals(closed.set, one_press=60):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert closed.wait(_PATIENCE)


@pytest.mark.parametrize(("before", "heard"), [(signal.SIG_DFL, "SIGHUP"), (signal.SIG_IGN, "SIGTERM")])
def test_a_closed_terminal_is_a_wish_to_end_unless_nohup_keeps_it_away(
    before: signal.Handlers, heard: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    usual = signal.signal(signal.SIGHUP, before)
    closed = threading.Event()
    try:
        # However long one of them takes, the second signal is no wish to leave at once.
        with closing_on_signals(closed.set, one_press=_PATIENCE):
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
            assert closed.wait(_PATIENCE)
        assert f"{heard}: committing" in caplog.text
    finally:
        signal.signal(signal.SIGHUP, usual)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with closing_on_signals(lambda: None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_counts_also_when_it_comes_as_the_main_thread_begins_to_wait() -> None:
    over = threading.Event()

    def busy() -> None:
        while not over.is_set():
            sum(range(200))

    others = [threading.Thread(target=busy) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        late = [turn for turn in range(20) if not _is_heard_while_waiting(pause=turn * 1e-5)]
    finally:
        over.set()
        for thread in others:
            thread.join()
    assert late == []


def _is_heard_while_waiting(pause: float) -> bool:
    waits, begun, heard = threading.Condition(), threading.Event(), []

    def close() -> None:
        begun.set()
        with waits:
            waits.notify_all()

    def send() -> None:
        with waits:
            waits.notify_all()  # the main thread wakes, and waits again
        time.sleep(pause)
        os.kill(os.getpid(), signal.SIGTERM)
        heard.append(begun.wait(_PATIENCE))
        close()

    sender = threading.Thread(target=send)
    with closing_on_signals(close), waits:
        sender.start()
        waits.wait_for(begun.is_set)
    sender.join()
    return heard[0]
