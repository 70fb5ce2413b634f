"""The chart's health script for Argo CD, run by Lua itself in the version that Argo CD has."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from debian_program import lua
from told_states import STATES, app_of, running

SCRIPT = Path(__file__).resolve().parents[3] / "charts" / "streamsapp" / "files" / "argocd-health.lua"


def literal(value: Any) -> str:
    """Returns a value of JSON in Lua's words. Argo CD leaves null out."""
    match value:
        case dict():
            return "{" + ",".join(f"[{json.dumps(key)}]={literal(it)}" for key, it in value.items()) + "}"
        case list() | tuple():
            return "{" + ",".join(literal(it) for it in value) + "}"
        case None:
            return "nil"
        case _:
            return json.dumps(value, ensure_ascii=False)


def health(app: dict[str, Any]) -> tuple[str, str]:
    """Returns the script's answer: the status, and the message."""
    program = lua()
    if program is None:
        pytest.skip("lua5.1 is not here, and apt-get has no package of that name")
    document = json.loads(json.dumps(app, default=lambda it: it.isoformat()))
    text = f"obj = {literal(document)}\nlocal answer = dofile({json.dumps(str(SCRIPT))})\n"
    text += 'io.write(answer.status, "\\n", answer.message)'
    ran = subprocess.run([str(program), "-"], input=text, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 0, ran.stderr
    status, _, message = ran.stdout.partition("\n")
    return status, message


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_the_health_of_argo_cd_for_it(state: str) -> None:
    make, _, word = STATES[state]
    status, message = health(app_of(make()))
    assert status == word
    assert message


def test_what_is_wrong_is_in_the_message() -> None:
    assert "exit 2: no brokers" in health(app_of(STATES["crashing"][0]()))[1]


@pytest.mark.parametrize("status", [None, {"observedGeneration": -1}])
def test_an_application_that_no_operator_has_seen_is_in_progress(status: dict[str, Any] | None) -> None:
    app = {key: value for key, value in app_of(running()).items() if key != "status"}
    assert health(app | ({} if status is None else {"status": status}))[0] == "Progressing"


def test_a_change_that_the_operator_has_not_seen_is_in_progress() -> None:
    app = app_of(running())
    app["metadata"]["generation"] += 1
    assert health(app)[0] == "Progressing"
