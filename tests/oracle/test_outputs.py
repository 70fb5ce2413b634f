"""Programs give Kafka Streams' records, timestamps, headers and order, and the same state and changelogs."""

from __future__ import annotations

import pytest

from classics import CLASSICS
from compare import outcome_difference, report
from generate_dsl import dsl_program
from generate_raw import raw_program
from oracle import Oracle

EVENTS = 30


@pytest.mark.parametrize("name", CLASSICS)
def test_outputs_match_kafka_streams_for_the_classic(name: str, oracle: Oracle) -> None:
    difference = outcome_difference(oracle, CLASSICS[name])
    assert difference is None, difference


@pytest.mark.seeds(40)
def test_outputs_match_kafka_streams_for_random_programs_of_the_dsl(seed: int, oracle: Oracle) -> None:
    difference = report(oracle, dsl_program(seed, size=12, events=EVENTS), outcome_difference)
    assert difference is None, difference


@pytest.mark.seeds(20)
def test_outputs_match_kafka_streams_for_random_programs_of_the_topology_api(seed: int, oracle: Oracle) -> None:
    difference = report(oracle, raw_program(seed, size=10, events=EVENTS), outcome_difference)
    assert difference is None, difference
