"""A field of the StreamsApp, of its status, a key of the configuration and the declared form of an operator are defined
in one file: a copy of the tree gets one more of each, and all that repeats it is made of that.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONFIGURATION = "runtime/streamsapp/config/settings.py"
MANIFEST = "runtime/streamsapp/manifest/model.py"
STATUS = "operator/streamsapp_operator/model/status.py"
OPERATIONS = "runtime/streamsapp/declared/operations.py"
#: Made by ``make definitions``.
SECTIONS = "runtime/streamsapp/manifest/sections.py"
MADE = {"crds/streamsapps.yaml", "docs/reference.md", "docs/configuration.md", SECTIONS}

READ = """
from streamsapp.errors import ManifestError
from streamsapp.manifest import decode
from streamsapp.manifest.to_config import to_config

def app(**spec):
    return decode({
        "apiVersion": "streamsapp.dev/v1alpha1", "kind": "StreamsApp", "metadata": {"name": "a"},
        "spec": {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "b:1"}, **spec},
    })

def refused(**spec):
    try:
        app(**spec)
    except ManifestError as error:
        return error.faults
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that definitions are in, or that are made of them."""
    ignored = shutil.ignore_patterns("__pycache__", "*.c", "*.h", "static")
    for name in ("runtime", "operator", "tools/definitions"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("crds", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("assets"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def run(tree: Path, *arguments: str) -> str:
    path = ":".join(str(tree / name) for name in ("runtime", "operator", "tools"))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True).stdout


def contents(tree: Path) -> Mapping[str, bytes]:
    files = (path for path in tree.rglob("*") if path.is_file())
    return {str(path.relative_to(tree)): path.read_bytes() for path in files}


def changed_by(tree: Path, by_hand: Callable[[], None]) -> set[str]:
    before = contents(tree)
    by_hand()
    run(tree, "-m", "definitions")
    after = contents(tree)
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def add(tree: Path, path: str, before: str, lines: str) -> None:
    text = (tree / path).read_text("utf-8")
    assert text.count(before) == 1
    (tree / path).write_text(text.replace(before, lines + before), "utf-8")


def test_the_files_that_are_made_are_made_of_the_definitions_as_they_are(tree: Path) -> None:
    assert changed_by(tree, lambda: None) == set()


def test_a_key_of_the_configuration_is_defined_in_one_file(tree: Path) -> None:
    key = """\
    most_dummies: int = field(
        default=7, metadata=setting("dummies of each instance", least=3, field="processing.mostDummies")
    )
"""
    before = "    standby_replicas: int = field("

    assert changed_by(tree, lambda: add(tree, CONFIGURATION, before, key)) == {CONFIGURATION} | MADE

    assert "| `most_dummies` | 7 | dummies of each instance | `processing.mostDummies` |" in page(tree, "configuration")
    assert "| `mostDummies` | integer ≥ 3 | `7` | dummies of each instance |" in page(tree, "reference")
    schema = (tree / "crds" / "streamsapps.yaml").read_text("utf-8")
    lines = "description: Dummies of each instance. type: integer format: int32 minimum: 3 default: 7"
    assert f"mostDummies: {lines}" in re.sub(r"\s+", " ", schema)
    answer = run(
        tree, "-c", READ + "print(to_config(app(processing={'mostDummies': 5}), secret_dir=None).most_dummies)\n"
        "print(to_config(app(), secret_dir=None).most_dummies, *refused(processing={'mostDummies': 2}))"
    )  # fmt: skip
    assert answer == "5\n7 spec.processing.mostDummies: expected an integer ≥ 3, got 2\n"


def test_a_field_of_the_streamsapp_is_defined_in_one_file(tree: Path) -> None:
    field = '    dummy_seconds: Annotated[Positive, Doc("a dummy lasts so long")] = 5\n'
    made = MADE - {"docs/configuration.md", SECTIONS}

    assert changed_by(tree, lambda: add(tree, MANIFEST, "    soak_seconds: ", field)) == {MANIFEST} | made

    assert "| `dummySeconds` | integer ≥ 1 | `5` | a dummy lasts so long |" in page(tree, "reference")
    answer = run(
        tree, "-c", READ + "print(app(rollout={'dummySeconds': 9}).spec.rollout.dummy_seconds)\n"
        "print(*refused(rollout={'dummySeconds': 0}))"
    )  # fmt: skip
    assert answer == "9\nspec.rollout.dummySeconds: expected an integer ≥ 1, got 0\n"


def test_a_field_of_the_status_is_defined_in_one_file(tree: Path) -> None:
    field = '    dummy_pods: Annotated[int | None, Doc("pods that are `dummies`")] = None\n'
    made = {"crds/streamsapps.yaml", "docs/reference.md"}

    before = "    conditions: Annotated[tuple[Condition, ...]"
    assert changed_by(tree, lambda: add(tree, STATUS, before, field)) == {STATUS} | made

    assert "| `dummyPods` | integer | pods that are `dummies` |" in page(tree, "reference")
    schema = (tree / "crds" / "streamsapps.yaml").read_text("utf-8")
    lines = "description: Pods that are dummies. type: integer format: int64 nullable: true"
    assert f"dummyPods: {lines}" in re.sub(r"\s+", " ", schema)


def test_a_field_of_a_part_of_the_status_is_defined_in_one_file(tree: Path) -> None:
    field = '    dummies: Annotated[int, Doc("dummy tasks")] = 0\n'
    made = {"crds/streamsapps.yaml", "docs/reference.md"}

    assert changed_by(tree, lambda: add(tree, STATUS, "    standby: Annotated[int", field)) == {STATUS} | made

    assert "| `tasks.dummies` | integer | dummy tasks |" in page(tree, "reference")


def test_an_operation_is_declared_in_one_file_and_random_programs_have_it(tree: Path) -> None:
    operation = '        "keepSome": Operation(Kind.STREAM, _PREDICATE, (NAMED,)),\n'
    before = '        "selectKey": Operation('

    assert changed_by(tree, lambda: add(tree, OPERATIONS, before, operation)) == {OPERATIONS, "docs/declared.md"}

    assert "| `filter`, `filterNot`, `keepSome` | stream | stream | **predicate**, *name* |" in page(tree, "declared")
    program = (
        f"import sys; sys.path.append({str(ROOT / 'tests' / 'oracle')!r})\n"
        "from one_function import operations, table_and_field\n"
        "from streamsapp.declared.roles import PREDICATE\n"
        "print(operations('stream', PREDICATE), table_and_field('keep_some'))"
    )
    assert run(tree, "-c", program) == "['filter', 'filter_not', 'keep_some'] ('PREDICATES', 'predicate')\n"


def test_an_operation_with_a_number_and_a_function_is_declared_in_one_file(tree: Path) -> None:
    operation = '        "sample": Operation(Kind.STREAM, {"every": Positive, **_PREDICATE}, (NAMED,)),\n'

    def by_hand() -> None:
        add(tree, OPERATIONS, '        "selectKey": Operation(', operation)
        add(tree, OPERATIONS, "    Pattern,\n)", "    Positive,\n")

    assert changed_by(tree, by_hand) == {OPERATIONS, "docs/declared.md"}

    assert "| `sample` | stream | stream | **every**, **predicate**, *name* |" in page(tree, "declared")


def page(tree: Path, name: str) -> str:
    return (tree / "docs" / f"{name}.md").read_text("utf-8")
