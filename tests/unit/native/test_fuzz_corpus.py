"""The targets of the fuzzer hold for the kept inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuzz
import fuzz_targets

KEPT = sorted(fuzz.CORPUS.glob("*/*"))


def test_the_tool_runs_all_targets_and_each_has_kept_inputs() -> None:
    assert tuple(fuzz_targets.TARGETS) == fuzz.NAMES
    assert {path.parent.name for path in KEPT} == set(fuzz.NAMES)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_kept_input_is_read_or_refused(path: Path) -> None:
    fuzz_targets.TARGETS[path.parent.name](path.read_bytes())


def test_kept_inputs_are_few_and_small() -> None:
    sizes = [path.stat().st_size for path in KEPT]
    assert max(sizes) <= fuzz.LARGEST_INPUT
    assert sum(sizes) < 1 << 20
