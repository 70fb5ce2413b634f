"""Programs of the whole language at once, against Kafka Streams: windows, joins and suppression that build on each
other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compare import description_difference, outcome_difference, report
from generate_language import language_program
from generate_stream_joins import stream_join_program
from generate_supplied import supplied_program
from generate_suppress import suppress_program
from generate_versioned import VersionedGenerator
from generate_windows import window_program
from oracle import Oracle
from scale import scaled


def _agree(oracle: Oracle, program: dict[str, Any]) -> None:
    difference = report(oracle, program, description_difference) or report(oracle, program, outcome_difference)
    assert difference is None, difference


@pytest.mark.seeds(4)
def test_random_programs_of_the_whole_language_are_those_of_kafka_streams(seed: int, oracle: Oracle) -> None:
    _agree(oracle, language_program(seed))


@pytest.mark.seeds(4)
def test_random_programs_with_what_users_bring_are_those_of_kafka_streams(seed: int, oracle: Oracle) -> None:
    """Suppliers of stores, processors and transformers with stores, partitioners, optimisations one by one."""
    _agree(oracle, supplied_program(seed))


def versioned_program(seed: int) -> dict[str, Any]:
    return VersionedGenerator(seed).tables(events=30)


@pytest.mark.seeds(2)
@pytest.mark.parametrize(
    "make",
    [language_program, window_program, stream_join_program, suppress_program, versioned_program],
    ids=lambda make: make.__name__,
)
def test_programs_that_span_the_segments_of_stores_are_those_of_kafka_streams(
    make: Callable[[int], dict[str, Any]], seed: int, oracle: Oracle
) -> None:
    _agree(oracle, scaled(make(seed), seed))
