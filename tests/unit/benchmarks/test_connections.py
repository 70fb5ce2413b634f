"""Cases over several kinds of connection, by several clients, and what their rows are held against."""

from __future__ import annotations

from benchmarks.cases import LIBRDKAFKA, OWN, PLAINTEXT, SASL_SSL, Case, connected, select
from benchmarks.measure import Measurement
from benchmarks.report import summarise, table

W1 = select({"W1"}, {"streamsapp", "kafka-streams", "quix"}, {"string"})
BOTH = [PLAINTEXT, SASL_SSL]


def test_only_ours_has_several_clients_and_only_two_systems_have_secured_connections() -> None:
    made = [(case.system, case.over, case.client) for case in connected(W1, BOTH, [OWN, LIBRDKAFKA])]

    assert made == [
        ("kafka-streams", PLAINTEXT, OWN),
        ("kafka-streams", SASL_SSL, OWN),
        ("quix", PLAINTEXT, OWN),
        ("streamsapp", PLAINTEXT, OWN),
        ("streamsapp", PLAINTEXT, LIBRDKAFKA),
        ("streamsapp", SASL_SSL, OWN),
        ("streamsapp", SASL_SSL, LIBRDKAFKA),
    ]


def test_what_is_asked_for_by_default_is_what_there_was() -> None:
    assert connected(W1, [PLAINTEXT], [OWN]) == W1


def test_a_row_is_held_against_the_same_connection_and_against_one_thing_less() -> None:
    took = Measurement(1.0, 1.0, 1.0, None, None, None, 0.0, None)
    speeds = {
        ("kafka-streams", PLAINTEXT, OWN): 100,
        ("kafka-streams", SASL_SSL, OWN): 50,
        ("streamsapp", PLAINTEXT, OWN): 400,
        ("streamsapp", SASL_SSL, OWN): 300,
        ("streamsapp", SASL_SSL, LIBRDKAFKA): 60,
    }
    cases = [case for case in connected(W1, BOTH, [OWN, LIBRDKAFKA]) if _name(case) in speeds]

    rows = [summarise(case, speeds[_name(case)], [took], smoke=True) for case in cases]
    said = [line.split() for line in table(rows, cases).splitlines()]

    secured, librdkafka = (next(words for words in said if f"{speed}" in words) for speed in (300, 60))
    assert secured[4:6] == ["over", "sasl_ssl"]
    assert secured[-4:] == ["6.00", "6.00", "0.75", "0.75"]
    assert librdkafka[4:8] == ["over", "sasl_ssl", "by", "librdkafka"]
    assert librdkafka[-4:] == ["1.20", "1.20", "0.20", "0.20"]


def _name(case: Case) -> tuple[str, str, str]:
    return case.system, case.over, case.client
