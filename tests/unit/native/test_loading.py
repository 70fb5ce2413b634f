"""The compiled part is a module like any other, and where it is not there the error says what to do."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import mmh3
import pytest

from compiled_trees import run_in_tree, tree_without_compiled_part
from streamsapp.native import compiled

NAME = f"compiled{sysconfig.get_config_var('EXT_SUFFIX')}"
REMEDY = "pip install --force-reinstall streamsapp); in a clone, type: make setup"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tree_without_compiled_part(tmp_path_factory.mktemp("tree"))


@pytest.fixture
def folder(tree: Path) -> Path:
    """The path where the module would be, and is not."""
    folder = tree / "streamsapp" / "native"
    for file in folder.glob("*.so"):
        file.unlink()
    return folder


def refusal(tree: Path) -> str:
    """Returns the last line of what a program says that cannot load it."""
    done = run_in_tree(tree, "import streamsapp.native")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: the compiled part of streamsapp cannot be loaded: ")
    return last


def test_it_lies_beside_its_sources_or_where_the_wheel_has_put_it() -> None:
    assert compiled.__file__ is not None
    assert Path(compiled.__file__).name == NAME
    assert compiled.__name__ == "streamsapp.native.compiled"


def test_where_it_is_missing_the_error_has_the_remedy(tree: Path, folder: Path) -> None:
    said = refusal(tree)
    assert f"There is no file of it in {folder}, and this is {sys.implementation.cache_tag} on {sys.platform}." in said
    assert said.endswith(REMEDY)


def test_one_of_another_python_is_named(tree: Path, folder: Path) -> None:
    (folder / "compiled.cpython-39-riscv64-linux-gnu.so").touch()

    assert f"There is compiled.cpython-39-riscv64-linux-gnu.so in {folder}, and this is " in refusal(tree)


def damaged(path: Path) -> None:
    path.write_bytes(b"no library")


def cut_off(path: Path) -> None:
    assert compiled.__file__ is not None
    path.write_bytes(
        Path(compiled.__file__).read_bytes()[:40]
    )  # a longer piece ends the process before any code of ours


def of_somebody_else(path: Path) -> None:
    assert mmh3.__file__ is not None
    shutil.copy(mmh3.__file__, path)


@pytest.mark.parametrize("put", [damaged, cut_off, of_somebody_else])
def test_a_file_that_is_not_it_is_named_with_the_systems_reason(
    put: Callable[[Path], None], tree: Path, folder: Path
) -> None:
    put(folder / NAME)

    said = refusal(tree)
    assert f"There is {NAME} in {folder}" in said
    assert said.endswith(REMEDY)


def test_the_set_up_imports_what_it_needs_before_there_is_one(tree: Path, folder: Path) -> None:
    program = "import streamsapp.local.java, streamsapp.local.jars, streamsapp.cache_folder; print('done')"
    assert run_in_tree(tree, program).stdout == "done\n"


def test_importing_it_loads_no_client_of_kafka() -> None:
    program = "import streamsapp.native, sys; print([name for name in sys.modules if name.startswith('confluent')])"
    assert run_in_tree(Path(), program).stdout == "[]\n"
