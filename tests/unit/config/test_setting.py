"""Every setting takes the values within its bounds and its choices, and refuses all others by its name."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp.config import RemoteStateConfig, StreamsConfig
from streamsapp.config.setting import MOST, defined_settings
from streamsapp.errors import ConfigError

NEEDED: dict[type, dict[str, str]] = {
    StreamsConfig: {"application_id": "a", "bootstrap_servers": "b:1", "processing_guarantee": "at_least_once"},
    RemoteStateConfig: {"url": "s3://bucket"},
}
SETTINGS = [(kind, each.name, defined) for kind in NEEDED for each, defined in defined_settings(kind)]
NUMBERS = [(kind, name, defined.least, defined.most) for kind, name, defined in SETTINGS if defined.least is not None]


def made(kind: type, name: str, value: object) -> Any:
    return kind(**NEEDED[kind] | {name: value})


@pytest.mark.parametrize(("kind", "name", "least", "most"), NUMBERS)
def test_a_number_is_taken_within_its_bounds(kind: type, name: str, least: int, most: int) -> None:
    if name != "max_poll_interval_ms":  # it has to be longer than a heartbeat
        assert getattr(made(kind, name, least), name) == least
    for beyond in (min(least, 0) - 2, most + 1, str(least), None if name == "threads" else float("nan"), True):
        with pytest.raises(ConfigError, match=rf"^(remote_state\.)?{name}: expected (an integer|seconds) [≥≤] "):
            made(kind, name, beyond)


@pytest.mark.parametrize(("kind", "name", "defined"), [each for each in SETTINGS if each[2].choices])
def test_one_of_the_choices_is_taken(kind: type, name: str, defined: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^(remote_state\.)?{name}: expected '{defined.choices[0]}' or "):
        made(kind, name, "another")


def test_there_are_bounds_and_choices_to_test() -> None:
    assert ("max_task_idle_ms", -1, MOST) in [each[1:] for each in NUMBERS]
    assert {"client", "server_side_encryption"} <= {name for _, name, defined in SETTINGS if defined.choices}
