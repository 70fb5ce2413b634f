"""The health of an instance whose login is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamsapp.cli.secret_routes import REFUSED, health_of, secret_routes, status_of
from streamsapp.manifest.kafka_secret import KafkaSecret

LOST = {"name": "kafka", "address": "kafka:9092", "since": "2026-01-02T03:04:05Z", "message": "no", "refused": True}


class Instance:
    """An instance with some outages."""

    def __init__(self, *outages: dict[str, Any], well: bool = True) -> None:
        self._outages = list(outages)
        self._well = well

    def status(self) -> dict[str, Any]:
        return {"applicationId": "app", "outages": self._outages}

    def healthy(self) -> tuple[bool, str]:
        return self._well, "state is RUNNING" if self._well else "threads died"


@pytest.mark.parametrize(
    ("outages", "changed", "healthy"),
    [
        ([LOST], True, False),
        ([LOST], False, True),
        ([LOST | {"refused": False}], True, True),
        ([], True, True),
        ([{"name": "remoteState"}], True, True),
    ],
)
def test_a_process_whose_login_is_refused_begins_anew_once_there_is_another_one(
    tmp_path: Path, outages: list[dict[str, Any]], changed: bool, healthy: bool
) -> None:
    (tmp_path / "sasl.password").write_text("one")
    secret = KafkaSecret(tmp_path)
    if changed:
        (tmp_path / "sasl.password").write_text("two")

    expected = (True, "state is RUNNING") if healthy else (False, REFUSED)
    assert health_of(Instance(*outages), secret) == expected
    assert status_of(Instance(*outages), secret)["kafkaSecretChanged"] is changed


def test_another_cause_of_bad_health_stays_the_cause(tmp_path: Path) -> None:
    assert health_of(Instance(LOST, well=False), KafkaSecret(tmp_path)) == (False, "threads died")


def test_probes_need_no_token_and_the_status_does(tmp_path: Path) -> None:
    routes = secret_routes(Instance(), KafkaSecret(tmp_path))
    assert {path: route.open for path, route in routes.items()} == {"/status": False, "/healthz": True}
