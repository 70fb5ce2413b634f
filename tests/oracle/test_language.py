"""Programs of the whole language at once, against Kafka Streams: windows, joins and suppression that build on each
other."""

from __future__ import annotations

import pytest

from compare import description_difference, outcome_difference, report
from generate_language import language_program
from oracle import Oracle


@pytest.mark.seeds(4)
def test_random_programs_of_the_whole_language_are_those_of_kafka_streams(seed: int, oracle: Oracle) -> None:
    program = language_program(seed)
    difference = report(oracle, program, description_difference) or report(oracle, program, outcome_difference)
    assert difference is None, difference
