"""The oracle itself: a program that kills its process fails one test."""

from __future__ import annotations

import pytest

from oracle import Oracle, OracleError


@pytest.mark.long
def test_a_request_that_kills_the_oracle_fails_with_the_reason_and_the_next_is_answered() -> None:
    larger_than_the_heap = "A" * 60_000_000
    with Oracle(heap="16m") as oracle:
        with pytest.raises(OracleError, match="OutOfMemoryError"):
            oracle.ask(kind="murmur2", keys=[larger_than_the_heap])
        assert oracle.ask(kind="murmur2", keys=["YWJj"])["hashes"] == [479470107]
