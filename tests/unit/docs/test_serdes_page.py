"""The page on serdes: its blocks run, and it names every serde."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from streamsapp import Serdes

PAGE = Path(__file__).resolve().parents[3] / "docs" / "serdes.md"


def test_every_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ModuleType("serdes_page")
    monkeypatch.setitem(sys.modules, program.__name__, program)  # annotations of dataclasses are looked up there
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(block, str(PAGE), "exec"), program.__dict__)  # noqa: S102 - our own page
    assert program.total(program.Order("jane", [program.Item(2)])) == 2


def test_every_serde_is_named() -> None:
    serdes = {name for name, member in vars(Serdes).items() if isinstance(member, staticmethod)}
    assert serdes <= set(re.findall(r"`(\w+)\(", PAGE.read_text("utf-8")))
