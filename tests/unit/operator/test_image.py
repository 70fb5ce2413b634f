"""The operator's image has what the operator imports, and nothing that it does not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

#: Imports every module, and renders every example, where modules of other packages than these cannot be found. It
#: prints the packages that were imported.
PROGRAM = """
import importlib, pkgutil, sys
from importlib.metadata import packages_distributions
from pathlib import Path

examples, *locked = sys.argv[1:]
owners = packages_distributions()
ours = {"streamsapp", "streamsapp_operator"}


def owned_by(name):
    return {each.lower().replace("_", "-").replace(".", "-") for each in owners.get(name, ())}


class Absent:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in owners and top not in ours and not owned_by(top) & set(locked):
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)


sys.meta_path.insert(0, Absent())
import streamsapp_operator

for module in pkgutil.walk_packages(streamsapp_operator.__path__, "streamsapp_operator."):
    importlib.import_module(module.name)

from streamsapp.manifest import load
from streamsapp_operator.children import RenderSettings
from streamsapp_operator.spec_rendering import rendered_spec
from streamsapp_operator.model.desired_state import DesiredState
import yaml

settings = RenderSettings("runtime:1", "operators", spark_image="spark:1")
for path in Path(examples).glob("*/streamsapp.yaml"):
    document = yaml.safe_load(path.read_text())
    document["metadata"] |= {"namespace": "default", "uid": "1", "generation": 1}
    wanted = rendered_spec(document, settings, lambda name: None).wanted
    assert isinstance(wanted, DesiredState), (path, wanted)
print(*sorted({owner for name in {each.partition(".")[0] for each in sys.modules} for owner in owned_by(name)}))
"""


def asked_for() -> set[str]:
    """The packages that the image's lock is made of."""
    lines = (ROOT / "images" / "operator.in").read_text("utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def imported(locked: set[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, str(ROOT / "examples"), *sorted(locked)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def locked() -> set[str]:
    lock = (ROOT / "images" / "operator.lock").read_text("utf-8")
    return set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))


def test_the_operator_imports_and_renders_with_the_packages_of_its_image_alone(locked: set[str]) -> None:
    answer = imported(locked)

    assert answer.returncode == 0, answer.stderr
    assert asked_for() <= set(answer.stdout.split()), "the image has a package that the operator does not import"


def test_a_package_that_the_image_lacks_cannot_be_imported(locked: set[str]) -> None:
    answer = imported(locked - {"sortedcontainers"})

    assert "No module named 'sortedcontainers'" in answer.stderr


def test_the_image_has_no_client_of_kafkas_or_of_s3s_and_no_database(locked: set[str]) -> None:
    assert not {"confluent-kafka", "kafka-python", "rocksdict", "boto3", "cramjam", "pyspark"} & locked
    assert asked_for() <= locked
