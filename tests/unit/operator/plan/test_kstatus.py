"""Tools that wait by kstatus (Flux, kpt, Argo CD's own library) take each state of an application for what it is."""

from __future__ import annotations

from typing import Any

import pytest

from told_states import STATES, app_of, running


def kstatus(app: dict[str, Any]) -> str:
    """Returns the word of kstatus (kubernetes-sigs/cli-utils, pkg/kstatus/status) for an object of a kind that it has
    no rules for."""
    metadata, status = app["metadata"], app.get("status", {})
    if "deletionTimestamp" in metadata:
        return "Terminating"
    if status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return "InProgress"
    for condition in status.get("conditions", ()):
        if condition["type"] in ("Reconciling", "Stalled") and condition["status"] == "True":
            return "InProgress" if condition["type"] == "Reconciling" else "Failed"
    ready = [condition["status"] for condition in status.get("conditions", ()) if condition["type"] == "Ready"]
    return "Current" if ready in ([], ["True"]) else "InProgress"


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_the_word_of_kstatus_for_it(state: str) -> None:
    make, word, _ = STATES[state]
    made = make()
    assert kstatus(app_of(made)) == word
    true = [it for it in made.status.conditions if it.type in ("UpToDate", "Reconciling", "Stalled")]
    assert [it.status for it in true].count("True") == 1
    assert all(it.reason for it in true)
    assert all(it.message for it in true if it.status == "True")
    both = {it.type for it in made.status.conditions if it.status == "True"} & {"Progressing", "Stalled"}
    assert len(both) < 2, "what is stalled does not progress"
    assert {it.observed_generation for it in made.status.conditions} == {made.app.generation}


def test_a_change_that_no_operator_has_seen_is_in_progress() -> None:
    app = app_of(running())
    app["metadata"]["generation"] += 1
    assert kstatus(app) == "InProgress"


def test_an_application_that_no_operator_has_seen_is_in_progress() -> None:
    """The API server gives a new object this status, by the default of its schema."""
    app = app_of(running()) | {"status": {"observedGeneration": -1}}
    assert kstatus(app) == "InProgress"
