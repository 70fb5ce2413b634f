"""The parts of a release work where there is nothing else: no tree, no other package."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

import release
from instances import eventually

ROOT = Path(__file__).resolve().parents[3]

RELEASE = (sys.executable, str(ROOT / "tools" / "release.py"))
#: The version of Python that wheels are made for.
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TAG = f"cp{PYTHON.replace('.', '')}"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All parts of a release of this tree."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    subprocess.run([*RELEASE, str(folder), PYTHON], check=True)
    return folder


class Installed:
    """An environment with the wheel and what that asks for, and nothing of this tree."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder, self.bin = folder, folder / "venv" / "bin"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
        self.environment = {**kept, "PATH": f"{self.bin}{os.pathsep}{kept['PATH']}"}
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        self.run(str(self.bin / "pip"), "install", "--quiet", f"{wheel}[local,operator]", "pytest")

    def run(self, *command: str, stdin: str = "", cwd: Path | None = None) -> str:
        answer = subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    [wheel] = dist.glob(f"*{platform.machine()}.whl")
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


def test_a_release_has_wheels_for_both_processors_and_other_parts_and_their_hashes(dist: Path) -> None:
    version = release.project_version()
    parts = {
        f"streamsapp-{version}-{TAG}-{TAG}-manylinux_2_28_x86_64.whl",
        f"streamsapp-{version}-{TAG}-{TAG}-manylinux_2_28_aarch64.whl",
        f"streamsapp-{version}.tar.gz",
        f"streamsapp-chart-{version}.tgz",
        f"streamsapp-{version}.cdx.json",
        release.IMAGES,
    }
    assert {each.name for each in dist.iterdir()} == {*parts, release.HASHES}
    lines = (dist / release.HASHES).read_text().splitlines()
    assert lines == [f"{hashlib.sha256((dist / name).read_bytes()).hexdigest()}  {name}" for name in sorted(parts)]


def test_the_images_that_a_cluster_without_a_way_out_needs_are_listed(dist: Path) -> None:
    version = yaml.safe_load((ROOT / "charts" / "streamsapp" / "Chart.yaml").read_text("utf-8"))["appVersion"]
    named = [line.partition("  #")[0] for line in (dist / release.IMAGES).read_text().splitlines()]
    assert named[:3] == [f"streamsapp-{kind}:{version}" for kind in ("operator", "runtime", "spark")]
    assert "docker.io/library/python:3.11-slim" in named[3:]


@pytest.mark.parametrize(("processor", "machine"), [("x86_64", 62), ("aarch64", 183)])
def test_a_wheel_has_the_module_for_its_processor_and_needs_no_newer_library_of_c(
    processor: str, machine: int, dist: Path
) -> None:
    [wheel] = dist.glob(f"*{processor}.whl")
    assert wheel.stat().st_size < 5_000_000
    with ZipFile(wheel) as opened:
        [name] = [each for each in opened.namelist() if each.endswith(".so")]
        module = opened.read(name)
        [about] = [each for each in opened.namelist() if each.endswith(".dist-info/WHEEL")]
        assert f"Tag: {TAG}-{TAG}-manylinux_2_28_{processor}\n" in opened.read(about).decode()
    assert name == f"streamsapp/native/compiled.cpython-{TAG[2:]}-{processor}-linux-gnu.so"
    assert int.from_bytes(module[18:20], "little") == machine  # e_machine of ELF's header
    versions = {tuple(map(int, each.split(b"."))) for each in re.findall(rb"GLIBC_([0-9.]+)", module)}
    assert versions
    assert max(versions) <= (2, 28)


def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    answer = subprocess.run([*RELEASE, str(tmp_path / "dist"), "3.99"], capture_output=True, text=True, check=True)
    assert "no wheels for Python 3.99: no python3.99 with its headers is on PATH\n" in answer.stdout
    assert not list((tmp_path / "dist").glob("*.whl"))


def test_the_source_archive_installs_where_there_is_a_compiler(dist: Path, tmp_path: Path) -> None:
    [source] = dist.glob("*.tar.gz")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(source)], check=True)
    program = "import streamsapp.native.compiled as it; print(it.__file__)"
    answer = subprocess.run([python, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert answer.stdout.startswith(str(tmp_path / "venv"))


def test_the_same_tree_gives_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    again = tmp_path / "dist"
    subprocess.run([*RELEASE, str(again), PYTHON], check=True)
    assert (again / release.HASHES).read_text() == (dist / release.HASHES).read_text()


def test_the_chart_has_the_resource_and_no_links(dist: Path) -> None:
    with tarfile.open(dist / f"streamsapp-chart-{release.project_version()}.tgz") as archive:
        members = {member.name: member for member in archive.getmembers()}
        crd = archive.extractfile("streamsapp/files/streamsapps.yaml")
        assert crd is not None
        assert crd.read() == (ROOT / "crds" / "streamsapps.yaml").read_bytes()
    assert all(member.isfile() for member in members.values())
    assert {"streamsapp/Chart.yaml", "streamsapp/values.schema.json"} <= members.keys()


def test_the_bill_of_materials_has_every_package_of_the_images(dist: Path) -> None:
    sbom = json.loads((dist / f"streamsapp-{release.project_version()}.cdx.json").read_text())
    listed = {each["name"]: each for each in sbom["components"]}
    assert {"confluent-kafka", "rocksdict", "kopf", "pyspark"} <= listed.keys()
    uplot = listed.pop("uplot")
    assert (uplot["purl"], uplot["licenses"]) == ("pkg:npm/uplot@1.6.32", [{"license": {"id": "MIT"}}])
    assert all(
        each["hashes"] and each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}" for each in listed.values()
    )


def test_commands_and_files_are_there(installed: Installed) -> None:
    where = installed.run("python", "-c", "import streamsapp, streamsapp_operator; print(streamsapp.__file__)")
    assert where.startswith(str(installed.folder))
    assert installed.run("streamsapp", "--version").startswith(f"streamsapp {release.project_version()}\n")
    assert "restart" in installed.run("kubectl-streamsapp", "--help")
    chart = Path(installed.run("streamsapp-operator", "chart").strip())
    assert chart.is_relative_to(installed.folder)
    for name in ("Chart.yaml", "values.yaml", "templates/deployment.yaml", "files/streamsapps.yaml"):
        assert (chart / name).is_file(), name
    resource = chart.parent / "streamsapps.yaml"
    assert resource.read_bytes() == (ROOT / "crds" / "streamsapps.yaml").read_bytes()


@pytest.fixture
def bare(installed: Installed, tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has Python alone: no Java, no Maven, no compiler, and nothing in its cache."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "seq", "sleep"):
        (programs / name).symlink_to(str(shutil.which(name)))
    settings = {"PATH": f"{installed.bin}:{programs}", "STREAMSAPP_CACHE": str(tmp_path / "cache")}
    return {**{name: value for name, value in installed.environment.items() if name != "JAVA_HOME"}, **settings}


@pytest.fixture
def project(installed: Installed, bare: dict[str, str], tmp_path: Path) -> Iterator[Path]:
    """A new project that runs."""
    installed.run("streamsapp", "new", "hello", cwd=tmp_path)
    folder = tmp_path / "hello"
    command = [str(installed.bin / "streamsapp"), "local", "-f", "app.yaml", "--http-port", "0"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=bare, stdout=log, stderr=log)
    try:

        def runs() -> bool:
            assert process.poll() is None, (tmp_path / "log").read_text()
            return "to RUNNING" in (tmp_path / "log").read_text()

        eventually(runs, "RUNNING", 120)
        yield folder
    finally:
        process.terminate()
        process.wait(120)


def test_a_new_project_asks_for_the_wheel_that_is_installed(installed: Installed, tmp_path: Path) -> None:
    installed.run("streamsapp", "new", "hello", cwd=tmp_path)
    folder = tmp_path / "hello"
    assert (folder / "requirements.txt").read_text().startswith("streamsapp @ file:///")
    answer = installed.run("pip", "install", "--no-index", "-r", "requirements.txt", cwd=folder)
    assert "streamsapp is already installed with the same version as the provided wheel" in answer


def test_an_extra_is_added_where_the_library_is_installed(installed: Installed) -> None:
    answer = installed.run("pip", "install", "--dry-run", "streamsapp[s3]")
    assert re.search(r"Would install .*boto3-", answer)


def test_the_wheel_of_this_machine_is_built_by_one_command(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "wheels.py"), str(tmp_path / "dist")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [wheel] = (tmp_path / "dist").iterdir()
    assert wheel.name.startswith(f"streamsapp-{release.project_version()}-{TAG}-{TAG}-")
    assert said == f"in an environment of your own, type:  pip install '{wheel}[local]'\n"


def test_a_stranger_has_a_result_in_five_commands(installed: Installed, project: Path) -> None:
    assert "1 passed" in installed.run("python", "-m", "pytest", "-q", cwd=project)
    line = '{"key": null, "value": "Streams of streams"}\n'
    assert "1 record written" in installed.run(
        "streamsapp", "produce", "lines", "-f", "app.yaml", stdin=line, cwd=project
    )
    shown = installed.run("streamsapp", "consume", "counts", "-f", "app.yaml", "--follow", "--max", "3", cwd=project)
    counts = [json.loads(each) for each in shown.splitlines()]
    assert {(each["key"], each["value"]) for each in counts} == {("streams", 1), ("of", 1), ("streams", 2)}
