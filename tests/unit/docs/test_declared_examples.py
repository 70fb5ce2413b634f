"""The page about declared topologies: its examples run as they stand, and its tables name all there is."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from streamsapp import Serdes, Topology
from streamsapp.declared import roles
from streamsapp.declared.operations import OPERATIONS, Kind
from streamsapp.declared.roles import Role
from streamsapp.manifest import decode, load
from streamsapp.manifest.entrypoint import load_topology
from streamsapp.testing import TopologyTestDriver

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "declared.md").read_text("utf-8")
TEXT, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def example(number: int, folder: Path) -> Topology:
    (code,) = blocks("python")
    document = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "example"},
        "spec": {"topology": yaml.safe_load(blocks("yaml")[number]), "code": {"files": {"shop.py": code}}},
    }
    return load_topology(decode(document), folder)


@pytest.fixture(autouse=True)
def _modules_are_left_as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("shop", None)


def test_the_first_steps_count_words(tmp_path: Path) -> None:
    with TopologyTestDriver(example(0, tmp_path)) as driver:
        driver.create_input_topic("lines", TEXT, TEXT).pipe_input(None, "To be, or not to be")
        counts = dict(driver.create_output_topic("counts", TEXT, LONG).read_key_values())
    assert counts == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_orders_go_their_ways(tmp_path: Path) -> None:
    with TopologyTestDriver(example(1, tmp_path)) as driver:
        orders = driver.create_input_topic("orders", TEXT, JSON)
        orders.pipe_key_values([
            ("1", {"customer": "ann", "cents": 20_000}),
            ("2", {"customer": "bob", "cents": 500}),
            ("3", {"customer": "ann", "cents": 100}),
        ])  # fmt: skip
        large = driver.create_output_topic("large-orders", TEXT, JSON).read_key_values()
        turnover = driver.create_output_topic("turnover", TEXT, TEXT).read_key_values()
    assert large == [("ann", {"customer": "ann", "cents": 20_000})]
    assert sorted(turnover) == [("ann", "20000"), ("ann", "20100"), ("bob", "500")]


def test_the_graph_numbers_visits(tmp_path: Path) -> None:
    with TopologyTestDriver(example(2, tmp_path)) as driver:
        driver.create_input_topic("visits", TEXT, TEXT).pipe_key_values([("ann", "a"), ("bob", "b"), ("ann", "c")])
        numbered = driver.create_output_topic("numbered-visits", TEXT, LONG).read_key_values()
    assert numbered == [("ann", 1), ("bob", 1), ("ann", 2)]


def test_the_first_steps_are_those_of_the_example() -> None:
    manifest = load(ROOT / "examples" / "wordcount-steps" / "streamsapp.yaml")
    assert manifest.spec.topology.steps == yaml.safe_load(blocks("yaml")[0])["steps"]


def rows() -> dict[tuple[str, str], set[str]]:
    """Fields in the table of operations, by operation and by what it is on."""
    found: dict[tuple[str, str], set[str]] = {}
    for row in re.findall(r"^\| (`\w+`.*?) \| (.*?) ?\|.*?\| ([^|]*) \|$", PAGE, re.MULTILINE):
        for operation in re.findall(r"`(\w+)`", row[0]):
            for place in re.findall(
                r"(?:cogrouped |grouped |windowed )*(?:stream|table)(?: in sessions| in count windows)?|^$",
                row[1].strip(),
            ):
                fields = re.findall(r"\*\*(\w+)\*\*|`(\w+)`", row[2])
                found.setdefault((operation, place), set()).update("".join(each) for each in fields)
    return found


@pytest.mark.parametrize(
    "kind", [kind for kind, operations in OPERATIONS.items() if operations], ids=lambda kind: kind.value
)
def test_the_table_has_every_operation_with_its_arguments(kind: Kind) -> None:
    place = "" if kind is Kind.BUILDER else kind.value.removeprefix("a ")
    table = rows()
    for name, operation in OPERATIONS[kind].items():
        assert {operation.written[argument] for argument in operation.arguments} <= table[name, place], name


@pytest.mark.parametrize(
    "role", [each for each in vars(roles).values() if isinstance(each, Role)], ids=lambda role: role.what
)
def test_the_page_names_all_that_is_built_in(role: Role) -> None:
    named = set(re.findall(r"`\{?(\w+)", PAGE.partition("## Built in")[2]))
    assert {*role.built_in, *role.made_from, *role.made_of} <= named
