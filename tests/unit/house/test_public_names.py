"""The names applications import."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import streamsapp


@pytest.mark.parametrize("name", streamsapp.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(streamsapp, name).__name__ == name


def test_type_checkers_see_the_same_names_as_python() -> None:
    tree = ast.parse(Path(str(streamsapp.__file__)).read_text("utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]

    assert sorted(str(alias.asname) for node in imports for alias in node.names) == streamsapp.__all__


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'StreamBuilder'; its public names: .*Topology"):
        importlib.import_module("streamsapp").StreamBuilder  # noqa: B018 - reading it is the test


def test_a_topology_is_described_without_loading_kafka_or_rocksdb() -> None:
    program = "import sys; from streamsapp import Topology; print({'confluent_kafka', 'rocksdict'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "set()"
