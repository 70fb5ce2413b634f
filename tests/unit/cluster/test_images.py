"""Images have what is tested, and are built again when it changes."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from cluster import images
from cluster.images import IMAGES, ROOT, SPARK, Image, Images, fingerprint
from cluster.layout import ClusterLayout
from streamsapp.errors import StreamsError


def locked(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / lock).read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize("lock", ["runtime", "operator", "spark", "build"])
def test_an_image_gets_the_versions_that_are_tested(lock: str) -> None:
    only_builds = {"wheel"}
    wanted = {name: version for name, version in locked(f"images/{lock}.lock").items() if name not in only_builds}
    assert wanted.items() <= locked("requirements.lock").items()


def test_the_runtimes_image_has_no_package_of_the_operator() -> None:
    assert not {"kopf", "kubernetes", "pyspark"} & locked("images/runtime.lock").keys()
    assert not {"kopf", "kubernetes"} & locked("images/spark.lock").keys()
    assert {"kopf", "kubernetes"} <= locked("images/operator.lock").keys()


@pytest.mark.parametrize("image", ["runtime", "operator", "spark"])
def test_every_package_of_an_image_is_checked_by_its_hash(image: str) -> None:
    installs = re.findall(
        r"pip (?:install|wheel) .*?(?=\n\S|\n &&|\Z)", (ROOT / f"images/{image}.Dockerfile").read_text(), re.DOTALL
    )
    installs = [each for each in installs if "/build/tree" not in each]
    assert len(installs) == {"spark": 5}.get(image, 3)
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


@pytest.mark.parametrize("image", [*IMAGES, SPARK], ids=lambda image: image.dockerfile)
def test_an_image_is_built_from_every_package_of_the_wheel(image: Image) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    rooms = {Path(each).parts[0] for each in [*wheel["packages"], *wheel["force-include"]]}
    dockerfile = (ROOT / image.dockerfile).read_text("utf-8")
    assert rooms == set(re.findall(r"^COPY (\w+) /build/tree/\1$", dockerfile, re.MULTILINE))
    assert rooms < set(image.sources)
    assert "hatch_build.py" in image.sources
    sent = set((ROOT / ".dockerignore").read_text("utf-8").splitlines())
    assert {f"!{room}" for room in (*rooms, "hatch_build.py")} < sent
    assert "**/*.so" in sent, "an image compiles for itself"


def test_a_change_of_a_source_is_seen(tmp_path: Path) -> None:
    code = tmp_path / "package" / "module.py"
    code.parent.mkdir()
    code.write_text("a = 1\n")
    before = fingerprint(["base"], [tmp_path])
    assert fingerprint(["base"], [tmp_path]) == before
    assert fingerprint(["another base"], [tmp_path]) != before

    code.write_text("a = 2\n")
    changed = fingerprint(["base"], [tmp_path])
    code.rename(code.with_name("renamed.py"))
    assert len({before, changed, fingerprint(["base"], [tmp_path])}) == 3


def test_what_was_compiled_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("a = 1\n")
    before = fingerprint([], [tmp_path])
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "module.pyc").write_bytes(b"compiled")
    (tmp_path / "module.so").write_bytes(b"compiled here, as the image does for itself")
    assert fingerprint([], [tmp_path]) == before


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit codes that containerd's client is going to have, one after the other."""
    codes: list[int] = []

    def ctr(_: ClusterLayout, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, codes.pop(0), "", "failed to extract a layer\n")

    monkeypatch.setattr(images, "ctr", ctr)
    monkeypatch.setattr(Images, "_buildah", lambda *_: "sha256:1")
    return codes


def test_an_image_that_containerd_did_not_take_is_imported_again(
    tmp_path: Path, answers: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    layout = ClusterLayout(tmp_path)
    layout.make()
    answers += [0, 1, 0]
    Images(layout).bring_in(IMAGES[:1])
    assert answers == []
    assert (
        "did not take localhost/streamsapp-runtime:dev, attempt 1: failed to extract a layer" in capsys.readouterr().out
    )

    Images(layout).bring_in(IMAGES[:1])  # which it remembers


def test_an_image_that_containerd_never_takes_is_told(tmp_path: Path, answers: list[int]) -> None:
    layout = ClusterLayout(tmp_path)
    layout.make()
    answers += [0, 1, 1, 1]
    with pytest.raises(
        StreamsError, match="did not take the image localhost/streamsapp-runtime:dev: failed to extract"
    ):
        Images(layout).bring_in(IMAGES[:1])
