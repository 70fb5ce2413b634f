"""The comparison itself: it sees what one side leaves out."""

from __future__ import annotations

from typing import Any

import pytest

import compare
from oracle import Oracle

_TEXTS = {"key": "string", "value": "string"}
_STREAMS = [{"op": "stream", "id": topic, "topics": [topic], "consumed": _TEXTS} for topic in ("l", "r")]
_JOIN = {"windows": {"size": 5}, "stream_joined": {**_TEXTS, "other_value": "string", "store_name": "waits"}}
#: Programs and a changelog of each, in which every key is deleted in the end.
_PROGRAMS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "the buffer of a suppressed table": (
        "app-held-store-changelog",
        [
            {"op": "table", "id": "t", "topic": "l", "consumed": _TEXTS},
            {"op": "suppress", "id": "u", "of": "t", "until": {"time_limit": 5}, "name": "held"},
            _STREAMS[1],
        ],
    ),
    "the records of an outer join that wait": (
        "app-waits-outer-shared-join-store-changelog",
        [*_STREAMS, {"op": "outer_join", "id": "j", "of": "l", "with": "r", "fn": "both", **_JOIN}],
    ),
}


@pytest.mark.parametrize(("changelog", "steps"), _PROGRAMS.values(), ids=_PROGRAMS)
def test_a_changelog_that_is_never_written_is_a_difference_though_its_keys_came_and_went(
    changelog: str, steps: list[dict[str, Any]], oracle: Oracle
) -> None:
    events = [{"topic": topic, "key": "k", "value": "v", "ts": at} for topic, at in (("l", 1), ("l", 9), ("r", 9))]
    inputs = {"l": _TEXTS, "r": _TEXTS}
    program: dict[str, Any] = {"optimize": False, "steps": steps, "inputs": inputs, "events": events}
    assert compare.outcome_difference(oracle, program) is None
    ours = compare.run_here(program)
    assert ours["outputs"].pop(changelog)[-1]["value"] is None
    difference = compare.outcome_difference(oracle, program, run=lambda program: ours)
    assert f"-topic {changelog}" in (difference or "")
