"""How modules introduce themselves."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("operator/streamsapp_operator", "spark/streamsapp_spark", "runtime/streamsapp")
#: Rooms of the runtime whose modules all say what they are.
ROOMS = (
    "cli", "config", "http", "local", "manifest", "metrics", "processor", "query", "remote", "serdes", "supervisor",
    "tasks", "topology",
)  # fmt: skip


def test_a_module_says_what_it_is_and_does_not_begin_with_a_bare_question_word() -> None:
    found = []
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        room = path.relative_to(ROOT).parts[2]
        if path.is_relative_to(ROOT / "runtime") and room not in ROOMS:
            continue
        header = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        if re.match(r"(What|Who|Whose|Where|Which|Whether|How|When|For how)\b", header):
            found.append(str(path.relative_to(ROOT)))

    assert found == []
