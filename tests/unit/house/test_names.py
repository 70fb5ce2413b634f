"""The words of the code: one class, one meaning."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("runtime/streamsapp", "operator/streamsapp_operator", "spark/streamsapp_spark")

#: Names that stand twice on purpose: a topology that is declared has the parts of one that is built, under their names.
DECLARED = {"Branch", "GlobalStore", "Group", "Processor"}
#: The types of Kafka's messages have the names of Kafka's schemas, which are those of one message.
MESSAGES = "messages"


def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        room = path.parent.name
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                if (room == "declared" and node.name in DECLARED) or room == MESSAGES:
                    continue
                places[node.name].append(str(path.relative_to(ROOT)))

    assert {name: where for name, where in places.items() if len(where) > 1} == {}
