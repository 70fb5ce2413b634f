"""Which builds make the programs of a node: Go itself is played by a script that makes what it is asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster import binaries
from streamsapp.cache_folder import CACHE_VARIABLE
from streamsapp.errors import StreamsError

#: Writes down its arguments, and makes its output as Go does: a file, or in a folder a file for each package.
GO = """#!/bin/sh
[ "$1" = version ] && echo "go version go1.26.8 linux/amd64" && exit
echo "$@" >>"{log}"
while [ "$1" != -o ]; do shift; done
output=$2
shift 2
{fails}
[ -d "$output" ] || {{ touch "$output"; exit; }}
for package; do touch "$output/${{package##*/}}"; done
"""


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Gives the file of what Go was asked for, a line for each build."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    _install(tmp_path)
    return tmp_path / "log"


def _install(folder: Path, fails: str = "") -> None:
    (folder / "go").write_text(GO.format(log=folder / "log", fails=fails), encoding="utf-8")
    (folder / "go").chmod(0o755)


def test_the_programs_of_one_project_are_built_together_and_nothing_is_built_twice(builds: Path) -> None:
    binaries.build(binaries.API_SERVER)
    first = builds.read_text("utf-8").splitlines()
    assert len(first) == 2
    [together] = [line for line in first if "kube-apiserver" in line]
    assert together.endswith(" k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kubectl")

    binaries.build(binaries.NODE)
    binaries.build(binaries.NODE)
    later = builds.read_text("utf-8").splitlines()[2:]
    assert sorted(line.rpartition(" ")[2] for line in later) == [
        ".",
        ".",
        "helm.sh/helm/v3/cmd/helm",
        "k8s.io/kubernetes/cmd/kube-proxy",
    ]
    assert "kubectl" not in "".join(later)
    assert binaries.missing(binaries.NODE) == []


def test_a_project_that_is_not_built_leaves_nothing_and_the_others_are_there(builds: Path, tmp_path: Path) -> None:
    _install(tmp_path, fails='case "$1" in *kube*) echo no space left >&2; exit 1;; esac')
    with pytest.raises(StreamsError, match=r"(?s)Go could not build kube-apiserver, kubectl .*no space left"):
        binaries.build(binaries.API_SERVER)
    assert binaries.missing(binaries.API_SERVER) == ["kube-apiserver", "kubectl"]
