"""Finding the topology in the user's code, and saying what is wrong with it in the user's terms."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from streamsapp.errors import ManifestError
from streamsapp.manifest import decode
from streamsapp.manifest.entrypoint import UserCode, load_entrypoint, load_topology

_numbers = count()

TOPOLOGY = "from streamsapp.topology.builder import Topology\ntopology = Topology().add_source('in', 'words')\n"


@pytest.fixture(autouse=True)
def _python_path_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("user_code_"):
            del sys.modules[name]


def write(folder: Path, text: str) -> str:
    """A module of its own name: Python imports a name once."""
    name = f"user_code_{next(_numbers)}"
    (folder / f"{name}.py").write_text(text)
    return name


def fault(folder: Path, entrypoint: str) -> str:
    with pytest.raises(ManifestError) as raised:
        load_entrypoint(entrypoint, UserCode([folder]), "spec.topology.entrypoint")
    (line,) = raised.value.faults
    assert line.startswith("spec.topology.entrypoint: ")
    return line


@pytest.mark.parametrize(
    "definition",
    [
        "app = topology",
        "def app(): return topology",
        "class Builder:\n    def build(self): return topology\napp = Builder()",
        "class Builder:\n    def build(self): return topology\ndef app(): return Builder()",
    ],
)
def test_takes_a_topology_a_builder_or_a_function_that_returns_one(tmp_path: Path, definition: str) -> None:
    module = write(tmp_path, f"{TOPOLOGY}{definition}\n")
    assert "words" in load_entrypoint(f"{module}:app", UserCode([tmp_path]), "field").describe().to_text()


def test_a_module_that_does_not_exist_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    assert "no module 'user_code_missing'; looked in " + str(tmp_path) in fault(tmp_path, "user_code_missing:topology")


def test_an_import_that_fails_inside_the_users_module_is_blamed_on_its_line(tmp_path: Path) -> None:
    module = write(tmp_path, "x = 1\nimport not_installed_anywhere\n")
    line = fault(tmp_path, f"{module}:topology")
    assert "No module named 'not_installed_anywhere'" in line
    assert line.endswith(f"({tmp_path}/{module}.py:2)")


def test_an_exception_while_importing_is_told_with_the_users_line(tmp_path: Path) -> None:
    module = write(tmp_path, "def f():\n    return 1 // 0\n\nf()\n")
    line = fault(tmp_path, f"{module}:topology")
    assert "raised ZeroDivisionError" in line
    assert line.endswith(f"{module}.py:2)")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("text = Consumed.with(1, 2)", "options are made by their class: Consumed(key_serde, value_serde)"),
        ('counts = Materialized.as("counts")', "options are made by their class"),
        ("words.map_values(v -> v)", "a function is written lambda key, value: ..."),
        ("builder = new StreamsBuilder()", "an object is made without new"),
    ],
)
def test_a_line_of_java_is_answered_with_its_python(tmp_path: Path, line: str, hint: str) -> None:
    module = write(tmp_path, f"x = 1\n{line}\n")
    assert f"; {hint}" in fault(tmp_path, f"{module}:topology")


def test_a_syntax_error_tells_file_and_line(tmp_path: Path) -> None:
    module = write(tmp_path, "x = 1\ndef (:\n")
    assert f"{module}.py, line 2" in fault(tmp_path, f"{module}:topology")


def test_a_missing_attribute_is_told_with_those_there_are(tmp_path: Path) -> None:
    module = write(tmp_path, TOPOLOGY)
    assert "has no attribute 'topologie'; it defines Topology, topology" in fault(tmp_path, f"{module}:topologie")


def test_something_else_than_a_topology_is_refused(tmp_path: Path) -> None:
    module = write(tmp_path, "topology = 3\n")
    assert "gives int; expected a Topology" in fault(tmp_path, f"{module}:topology")


def test_a_topology_error_is_blamed_on_the_line_that_builds_it(tmp_path: Path) -> None:
    module = write(tmp_path, f"{TOPOLOGY}def app():\n    return topology.add_source('in', 'again')\n")
    line = fault(tmp_path, f"{module}:app")
    assert "raised TopologyError" in line
    assert line.endswith(f"{module}.py:4)")


def test_inline_files_are_found_before_those_beside_the_manifest(tmp_path: Path) -> None:
    module = write(tmp_path, TOPOLOGY.replace("words", "beside"))
    manifest = decode({
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "a"},
        "spec": {"topology": {"entrypoint": f"{module}:topology"}, "code": {"files": {f"{module}.py": TOPOLOGY}}},
    })  # fmt: skip
    assert "words" in load_topology(manifest, tmp_path).describe().to_text()


def test_code_that_is_forgotten_makes_room_for_other_code_of_the_same_names(tmp_path: Path) -> None:
    name = f"user_code_{next(_numbers)}"
    topologies = []
    for version in ("one", "other"):
        package = tmp_path / version / f"{name}_package"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"TOPIC = '{version}'\n")
        module = tmp_path / version / f"{name}.py"
        module.write_text(f"from {name}_package import TOPIC\n{TOPOLOGY.replace(repr('words'), 'TOPIC')}")
        code = UserCode([tmp_path / version])
        topologies.append(load_entrypoint(f"{name}:topology", code, "spec.topology.entrypoint"))
        code.forget()
        assert not [each for each in sys.modules if each.startswith(name)]
        assert str(tmp_path / version) not in sys.path
    assert [node.topics for topology in topologies for part in topology.sub_topologies() for node in part.sources] == [
        ("one",),
        ("other",),
    ]
    assert "streamsapp.manifest.entrypoint" in sys.modules


def test_modules_below_the_folder_of_the_code_that_python_finds_elsewhere_stay() -> None:
    import msgspec

    installed = Path(msgspec.__file__).parent.parent
    UserCode([installed.parent]).forget()
    assert sys.modules["msgspec"] is msgspec


@pytest.mark.parametrize("code", ["3", "", "'why'"])
def test_a_module_that_ends_python_is_told_with_its_line(tmp_path: Path, code: str) -> None:
    module = write(tmp_path, f"import sys\n{TOPOLOGY}sys.exit({code})\n")
    line = fault(tmp_path, f"{module}:topology")
    assert f"importing {module} ended Python with sys.exit({code}) ({tmp_path / module}.py:4); put what runs" in line
    assert 'if __name__ == "__main__":' in line


def test_a_function_that_ends_python_is_told_with_its_line(tmp_path: Path) -> None:
    module = write(tmp_path, "import sys\ndef app(): sys.exit(0)\n")
    assert f"building {module}:app ended Python with sys.exit(0)" in fault(tmp_path, f"{module}:app")


def test_what_a_property_raises_is_told_with_its_line(tmp_path: Path) -> None:
    module = write(tmp_path, "class A:\n    @property\n    def topology(self): return 1 / 0\nholder = A()\n")
    line = fault(tmp_path, f"{module}:holder.topology")
    assert f"looking up {module}:holder.topology raised ZeroDivisionError" in line
    assert f"{module}.py:3" in line
