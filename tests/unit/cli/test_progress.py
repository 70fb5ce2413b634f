"""Restore progress on a terminal and in a log."""

from __future__ import annotations

import io
import logging

import pytest

from streamsapp.cli.progress import ByteBar, RestoreBar
from streamsapp.record import TopicPartition

FIRST, SECOND = TopicPartition("app-s-changelog", 0), TopicPartition("app-s-changelog", 1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Goes on when the test lets it."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return int(self.seconds * 1000)


def test_a_terminal_shows_one_bar_over_all_partitions_and_clears_it_at_the_end() -> None:
    screen, clock = Terminal(), Clock()
    progress = RestoreBar(screen, clock)
    progress.on_restore_start(FIRST, "s", 0, 100)
    progress.on_restore_start(SECOND, "s", 100, 200)
    clock.seconds = 1.0
    progress.on_batch_restored(FIRST, "s", 49, 50)
    assert "25% 0 of 2 changelog partitions, 50 records, 50/s" in screen.getvalue()
    progress.on_restore_end(FIRST, "s", 100)
    clock.seconds = 2.0
    progress.on_batch_restored(SECOND, "s", 149, 50)
    assert "75% 1 of 2" in screen.getvalue()
    progress.on_restore_end(SECOND, "s", 100)
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_terminal_is_not_redrawn_for_every_batch() -> None:
    screen, clock = Terminal(), Clock()
    progress = RestoreBar(screen, clock)
    progress.on_restore_start(FIRST, "s", 0, 1000)
    for batch in range(100):
        clock.seconds += 0.01
        progress.on_batch_restored(FIRST, "s", batch * 10 + 9, 10)
    assert 5 <= screen.getvalue().count("\r") <= 10


def test_elsewhere_start_and_end_are_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    out, clock = io.StringIO(), Clock()
    progress = RestoreBar(out, clock)
    progress.on_restore_start(FIRST, "s", 5, 105)
    clock.seconds = 1.0
    progress.on_batch_restored(FIRST, "s", 54, 50)
    clock.seconds = 11.0
    progress.on_batch_restored(FIRST, "s", 104, 50)
    progress.on_restore_end(FIRST, "s", 100)
    assert out.getvalue() == ""
    assert [line.partition(":")[0][:30] for line in caplog.messages] == [
        "restoring store s from changel",
        caplog.messages[1][:30],
        "restored store s from changelo",
        "restored 1 changelog partition",
    ]
    assert "100%" in caplog.messages[1]


def test_a_task_that_moves_away_no_longer_counts() -> None:
    progress = RestoreBar(Terminal(), Clock())
    progress.on_restore_start(FIRST, "s", 0, 100)
    progress.on_restore_start(SECOND, "s", 0, 300)
    progress.on_batch_restored(FIRST, "s", 49, 50)
    progress.on_restore_suspended(SECOND, "s", 0)
    assert " 50% 0 of 1 " in progress.text()


def test_an_empty_changelog_is_restored_at_once() -> None:
    progress = RestoreBar(Terminal(), Clock())
    progress.on_restore_start(FIRST, "s", 0, 0)
    assert "100%" in progress.text()


def test_verifying_shows_the_share_that_was_read_and_clears_it_at_the_end() -> None:
    screen, clock = Terminal(), Clock()
    with ByteBar("verifying", 2_000, screen, clock) as progress:
        progress(500)
        clock.seconds = 0.05
        progress(500)
        clock.seconds = 0.2
        progress(500)

    assert "verifying █" in screen.getvalue()
    assert " 25% of 2,000 bytes" in screen.getvalue()
    assert " 50%" not in screen.getvalue()
    assert " 75% of 2,000 bytes" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_verifying_draws_nothing_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with ByteBar("verifying", 100, stream, Clock()) as progress:
        progress(100)

    assert stream.getvalue() == ""


def test_a_task_that_comes_back_while_another_restores_does_not_end_the_bar() -> None:
    screen = Terminal()
    progress = RestoreBar(screen, Clock())
    progress.on_restore_start(FIRST, "s", 0, 100)
    progress.on_restore_start(SECOND, "s", 0, 100)
    progress.on_restore_end(FIRST, "s", 100)
    progress.on_restore_start(FIRST, "s", 0, 100)
    progress.on_restore_end(FIRST, "s", 100)
    assert "1 of 2 changelog partitions" in progress.text()
    progress.on_batch_restored(SECOND, "s", 49, 50)
    progress.on_restore_end(SECOND, "s", 100)
    assert screen.getvalue().endswith("\r\x1b[K")


def test_what_is_told_of_a_changelog_that_never_began_is_let_pass() -> None:
    progress = RestoreBar(Terminal(), Clock())
    progress.on_batch_restored(FIRST, "s", 49, 50)
    progress.on_restore_end(FIRST, "s", 100)
    progress.on_restore_suspended(FIRST, "s", 100)
    assert "0 of 0 changelog partitions" in progress.text()


def test_a_terminal_that_is_gone_does_not_end_the_restoring() -> None:
    screen, clock = Terminal(), Clock()
    progress = RestoreBar(screen, clock)
    progress.on_restore_start(FIRST, "s", 0, 100)
    screen.close()
    clock.seconds = 1.0
    progress.on_batch_restored(FIRST, "s", 49, 50)
    progress.on_restore_end(FIRST, "s", 100)
