"""A query that ends before its driver ended it. On one thread, without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamsapp.errors import ConfigError, StreamsError
from streamsapp_spark.streaming.engine import SparkEngine


def failure(
    *,
    closing: bool,
    written: bool,
    goes_on: bool = False,
    error: Exception | None = None,
    other: ConfigError | None = None,
) -> str | None:
    """The failure of the driver; ``None`` if it ends with exit 0."""

    def check() -> None:
        if not written:
            raise StreamsError("a snapshot is missing")

    event = threading.Event()
    if closing:
        event.set()
    query, service = SimpleNamespace(exception=lambda: error), SimpleNamespace(closing=event, check_snapshots=check)
    executors = SimpleNamespace(other_versions=lambda: other)
    found = SparkEngine._failure_of(cast(Any, query), cast(Any, service), cast(Any, executors), goes_on=goes_on)
    return None if found is None else str(found)


def test_a_query_that_something_else_stops_before_its_end_is_a_failure() -> None:
    assert failure(closing=False, written=True) == "the query failed: something else stopped it"
    assert failure(closing=False, written=True, error=ValueError("no room")) == "the query failed: no room"


def test_a_query_that_fails_beside_an_executor_of_another_release_is_told_by_the_release() -> None:
    other = ConfigError("the executor on host has streamsapp 1 instead of 2")
    assert failure(closing=False, written=True, error=ValueError("no worker"), other=other) == str(other)


@pytest.mark.parametrize("error", [None, ValueError("no room")])
def test_a_query_that_fails_while_the_driver_ends_is_none_if_remote_state_has_all(error: Exception | None) -> None:
    assert failure(closing=True, written=True, error=error) is None
    assert failure(closing=True, written=False, error=error) == "a snapshot is missing"
    assert failure(closing=True, written=False, goes_on=True, error=error) is None, "the next query writes it"
