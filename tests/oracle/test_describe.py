"""Our topologies describe themselves byte for byte as Kafka Streams' do (but for the names of user functions)."""

from __future__ import annotations

import pytest

from classics import CLASSICS
from compare import description_difference, report
from generate_dsl import dsl_program
from generate_raw import raw_program
from oracle import Oracle

#: Small programs shrink faster and large ones find more.
SIZES = (6, 12, 25, 50)


@pytest.mark.parametrize("name", CLASSICS)
def test_describe_matches_kafka_streams_for_the_classic(name: str, oracle: Oracle) -> None:
    difference = description_difference(oracle, CLASSICS[name])
    assert difference is None, difference


@pytest.mark.seeds(15)
@pytest.mark.parametrize("size", SIZES)
def test_describe_matches_kafka_streams_for_random_programs_of_the_dsl(size: int, seed: int, oracle: Oracle) -> None:
    difference = report(oracle, dsl_program(seed, size, events=0), description_difference)
    assert difference is None, difference


@pytest.mark.seeds(15)
@pytest.mark.parametrize("size", SIZES)
def test_describe_matches_kafka_streams_for_random_programs_of_the_topology_api(
    size: int, seed: int, oracle: Oracle
) -> None:
    difference = report(oracle, raw_program(seed, size, events=0, read_only=True), description_difference)
    assert difference is None, difference
