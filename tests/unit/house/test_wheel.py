"""The files that the wheel has beside the code."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("streamsapp", "streamsapp_operator", "streamsapp_spark", "pyspark_streamsapp")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    [path] = folder.glob("*.whl")
    with ZipFile(path) as opened:
        yield opened


def test_it_has_the_resource_definition_as_the_tree_has_it(wheel: ZipFile) -> None:
    assert wheel.read("streamsapp_operator/streamsapps.yaml") == (ROOT / "crds" / "streamsapps.yaml").read_bytes()


def test_it_has_the_chart_with_the_resource(wheel: ZipFile) -> None:
    chart = ROOT / "charts" / "streamsapp"
    packed = {name.removeprefix("streamsapp_operator/chart/") for name in wheel.namelist() if "/chart/" in name}
    assert packed == {each.relative_to(chart).as_posix() for each in chart.rglob("*") if each.is_file()}
    crd = wheel.read("streamsapp_operator/chart/files/streamsapps.yaml")
    assert crd == (ROOT / "crds" / "streamsapps.yaml").read_bytes()


def test_every_package_has_types(wheel: ZipFile) -> None:
    names = set(wheel.namelist())
    assert {name.partition("/")[0] for name in names if name.endswith("__init__.py")} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_it_says_under_which_license_it_is_and_names_no_host_that_nobody_has(wheel: ZipFile) -> None:
    [metadata] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    told = Parser().parsestr(wheel.read(metadata).decode())
    assert told["License-Expression"] == "Apache-2.0"
    assert wheel.read(metadata.replace("METADATA", "licenses/LICENSE")) == (ROOT / "LICENSE").read_bytes()
    assert told.get_all("Project-URL") is None


def test_it_has_the_library_of_the_charts_with_its_license(wheel: ZipFile) -> None:
    folder = "streamsapp/web/uplot/"
    packed = {name.removeprefix(folder) for name in wheel.namelist() if name.startswith(folder)}
    assert packed == {"LICENSE", "uPlot.iife.min.js", "uPlot.min.css"}
    assert b"MIT License" in wheel.read(f"{folder}LICENSE")


def test_it_is_for_this_python_and_platform_with_the_compiled_part_and_none_of_its_sources(wheel: ZipFile) -> None:
    packed = [name for name in wheel.namelist() if name.startswith("streamsapp/native/")]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert [name for name in packed if not name.endswith((".py", ".pyi"))] == [f"streamsapp/native/compiled{suffix}"]
    assert "streamsapp/native/compiled.pyi" in packed
    [metadata] = [name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL")]
    told = Parser().parsestr(wheel.read(metadata).decode())
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    assert (told["Root-Is-Purelib"], told["Tag"]) == ("false", f"{python}-{python}-{platform}")


def test_it_is_small(wheel: ZipFile) -> None:
    assert wheel.filename is not None
    assert Path(wheel.filename).stat().st_size < 5_000_000
