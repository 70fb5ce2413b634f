"""Reads that a thread waits for go before files that no thread waits for."""

from __future__ import annotations

from streamsapp.runtime.remote_state.precedence import Precedence


def test_files_are_filled_by_one_thread_at_a_time_while_many_reads_wait() -> None:
    precedence = Precedence(fillers=4)
    assert [precedence.begin_filling() for _ in range(5)] == [True] * 4 + [False]
    for _ in range(4):
        precedence.end_filling()
    with precedence.reading(), precedence.reading():
        assert [precedence.begin_filling() for _ in range(3)] == [True, True, False]
        for _ in range(2):
            precedence.end_filling()
        with precedence.reading(), precedence.reading(), precedence.reading():
            assert [precedence.begin_filling() for _ in range(2)] == [True, False]
            precedence.end_filling()
    assert precedence.begin_filling()
