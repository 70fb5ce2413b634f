"""Builds what a release consists of, into one folder: wheels, source archive, chart archive, SBOM, a list of images,
and their hashes.

Run by ``make release``, with the folder and the versions of Python that wheels are for. The same commit gives the same
bytes. Nothing is published.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

import wheels

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "streamsapp"
HASHES = "SHA256SUMS"
#: For clusters without a way out: all images that this release runs, and is built of.
IMAGES = "images.txt"
#: The locks: each has the packages that one kind of installation brings.
_LOCKS = ("images/runtime.lock", "images/operator.lock", "images/spark.lock", "requirements.lock")
_BASE = re.compile(r"^ARG BASE=(\S+)$", re.MULTILINE)
_LOCKED = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)(.*?)(?=^[A-Za-z0-9]|\Z)", re.MULTILINE | re.DOTALL)


def main() -> int:
    out = Path(sys.argv[1]).resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    moment = commit_time()
    build_packages(out, moment, sys.argv[2:] or wheels.PYTHONS)
    version = project_version()
    (out / f"streamsapp-chart-{version}.tgz").write_bytes(chart_archive(CHART, moment))
    (out / IMAGES).write_text(image_list(ROOT), encoding="utf-8")
    sbom = sbom_of(version, [ROOT / lock for lock in _LOCKS])
    (out / f"streamsapp-{version}.cdx.json").write_text(json.dumps(sbom, indent=2) + "\n", encoding="utf-8")
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in sorted(out.iterdir())]
    (out / HASHES).write_text("".join(lines), encoding="utf-8")
    print("".join(lines), end="")
    return 0


def project_version() -> str:
    """The version that wheel and chart have."""
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return version


def commit_time() -> int:
    """Returns when the commit was made, in seconds: the time of all files in archives."""
    answer = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(answer.stdout)


def build_packages(out: Path, moment: int, versions: Sequence[str]) -> None:
    """The source archive, and the wheels that are built of nothing but that."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(moment)}
    sdist = [sys.executable, "-m", "hatchling", "build", "-d", str(out), "-t", "sdist"]
    subprocess.run(sdist, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    [source] = out.glob("*.tar.gz")
    wheels.build_wheels(source, out, versions, environment)


def chart_archive(chart: Path, moment: int) -> bytes:
    """A chart as helm takes it, with files in the place of links."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for path in sorted(chart.rglob("*")):
            if not path.is_file():
                continue
            data = path.read_bytes()
            member = tarfile.TarInfo(f"{chart.name}/{path.relative_to(chart)}")
            member.size, member.mtime, member.mode = len(data), moment, 0o644
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=moment)


def image_list(root: Path) -> str:
    """Returns the images that the chart names, and the base images of their Dockerfiles, one a line; what comes from a
    registry has its digest there."""
    chart = root / "charts" / "streamsapp"
    values = yaml.safe_load((chart / "values.yaml").read_text("utf-8"))
    version = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))["appVersion"]
    kinds = ("operator", "runtime", "spark")
    texts = [(root / "images" / f"{kind}.Dockerfile").read_text("utf-8") for kind in kinds]
    bases = {found[1] for text in texts for found in _BASE.finditer(text)}
    images = {kind: values[kind]["image"] for kind in kinds}
    named = [
        f"{image['repository']}:{image['tag'] or version}  # {kind}.image of the chart\n"
        for kind, image in images.items()
    ]
    return "".join([*named, *(f"{base}  # its base, to build it\n" for base in sorted(bases))])


def sbom_of(version: str, locks: list[Path]) -> dict[str, Any]:
    """All locked packages with their hashes, and the vendored library, as CycloneDX 1.5; each with the locks that have
    it."""
    components: dict[tuple[str, str], dict[str, Any]] = {}
    for lock in locks:
        for name, locked, hashes in _packages(lock):
            found = components.setdefault(
                (name, locked),
                {
                    "type": "library",
                    "name": name,
                    "version": locked,
                    "purl": f"pkg:pypi/{name}@{locked}",
                    "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
                    "properties": [],
                },
            )
            found["properties"].append({"name": "streamsapp:lock", "value": lock.name})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "streamsapp",
                "version": version,
                "purl": f"pkg:pypi/streamsapp@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [*(components[key] for key in sorted(components)), _uplot()],
    }


def _uplot() -> dict[str, Any]:
    """The library that is part of the wheel: it draws the charts of the consoles."""
    script = (ROOT / "runtime/streamsapp/web/uplot/uPlot.iife.min.js").read_bytes()
    version = re.search(rb"\(v([0-9.]+)\)", script[:200])
    assert version is not None
    found = version[1].decode()
    return {
        "type": "library",
        "name": "uplot",
        "version": found,
        "purl": f"pkg:npm/uplot@{found}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(script).hexdigest()}],
        "licenses": [{"license": {"id": "MIT"}}],
    }


def _packages(lock: Path) -> Iterator[tuple[str, str, list[str]]]:
    for found in _LOCKED.finditer(lock.read_text("utf-8")):
        yield found[1].lower(), found[2], sorted(set(re.findall(r"--hash=sha256:([0-9a-f]{64})", found[3])))


if __name__ == "__main__":
    sys.exit(main())
