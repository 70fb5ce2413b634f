"""Builds the programs of a Kubernetes node from the Go module proxy into the user's cache, once per version.

Called by the set-up, by ``make cluster-up`` and by tests; two projects are built at a time, each on a thread of its
own, so that no core waits for a linker. Each folder below ``modules`` is a Go module that pins what is built from it:
``go.sum`` has the hash of every module, and Go refuses any other. A process that finds another one building waits for
it. Progress is reported on stderr.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import versitygw
from streamsapp.cache_folder import cache_dir
from streamsapp.errors import StreamsError

_MODULES = Path(__file__).resolve().parent / "modules"
_PROGRESS_SECONDS = 10.0


class _Source(NamedTuple):
    """The source of one project's programs: a folder of ``modules``, and the module whose version is theirs."""

    folder: str
    module: str


_KUBERNETES = _Source("kubernetes", "k8s.io/kubernetes")
_ETCD = _Source("etcd", "go.etcd.io/etcd/server/v3")
_HELM = _Source("helm", "helm.sh/helm/v3")
_COREDNS = _Source("coredns", "github.com/coredns/coredns")
_PAUSE = _Source("pause", "streamsapp.dev/cluster/pause")

#: Stands for a program that is written here.
_OURS = "."
#: Program → its source and its package below the source's module. Kubernetes' are the slowest and share most work.
_PROGRAMS = {
    "etcd": (_ETCD, ""),
    "kube-apiserver": (_KUBERNETES, "/cmd/kube-apiserver"),
    "kubectl": (_KUBERNETES, "/cmd/kubectl"),
    "kube-controller-manager": (_KUBERNETES, "/cmd/kube-controller-manager"),
    "kube-scheduler": (_KUBERNETES, "/cmd/kube-scheduler"),
    "kubelet": (_KUBERNETES, "/cmd/kubelet"),
    "kube-proxy": (_KUBERNETES, "/cmd/kube-proxy"),
    "helm": (_HELM, "/cmd/helm"),
    "coredns": (_COREDNS, _OURS),
    "pause": (_PAUSE, _OURS),
}

#: The programs for tests of one resource: objects that are stored and validated, without a controller that acts on
#: them.
API_SERVER = ("etcd", "kube-apiserver", "kubectl")
#: The programs for tests where there can be no node.
WITHOUT_NODE = (*API_SERVER, "helm")
#: The programs that users of a cluster call.
CLIENTS = ("kubectl", "helm")
#: The programs that a node needs.
NODE = tuple(_PROGRAMS)


def executable(name: str) -> Path:
    """A program of the node; built the first time it is asked for."""
    build([name])
    return path(name)


def path(name: str) -> Path:
    """Returns the path of a program, whether or not it has been built."""
    source, _ = _PROGRAMS[name]
    return cache_dir() / f"{source.folder}-{_version(source)}" / name


def missing(names: Sequence[str]) -> list[str]:
    """The programs among ``names`` that :func:`build` would have to build."""
    return [name for name in names if not path(name).is_file()]


def build(names: Sequence[str]) -> None:
    """Make all of these programs exist. Some minutes of two cores for all of them, nothing the second time."""
    if not missing(names):
        return
    if not versitygw.is_buildable():
        raise StreamsError("Go 1.21 or newer is needed to build Kubernetes' programs: install it, put it on PATH")
    with _alone():
        wanted = missing(names)  # again: another process may have built them meanwhile
        sources = dict.fromkeys(_PROGRAMS[name][0] for name in wanted)
        with ThreadPoolExecutor(2) as threads:
            for built in [threads.submit(_build, source, wanted) for source in sources]:
                built.result()


def link(folder: Path) -> None:
    """One folder for PATH: what users of a cluster call, and the plugin that kubectl finds there."""
    build(CLIENTS)
    plugin = Path(sys.executable).parent / "kubectl-streamsapp"
    for program in (*map(path, CLIENTS), plugin):
        place = folder / program.name
        place.unlink(missing_ok=True)
        place.symlink_to(program)


def _build(source: _Source, names: Sequence[str]) -> None:
    """The programs of ``source`` among ``names``, in one run of Go: one is linked while others are compiled."""
    packages = {name: package for name, (of, package) in _PROGRAMS.items() if of == source and name in names}
    targets = [package if package == _OURS else f"{source.module}{package}" for package in packages.values()]
    folder, title = path(next(iter(packages))).parent, f"{', '.join(packages)} {_version(source)}"
    folder.mkdir(parents=True, exist_ok=True)
    command = ["nice", "go", "build", "-v", "-trimpath", "-gcflags=all=-dwarf=false", f"-ldflags={_link_flags(source)}"]
    with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as scratch:
        # Go names programs after their packages where it makes several, and some have other names.
        output = scratch if len(packages) > 1 else str(Path(scratch) / next(iter(packages)))
        with subprocess.Popen(
            [*command, "-o", output, *targets],
            cwd=_MODULES / source.folder,
            env={**os.environ, **versitygw.GO, "GOFLAGS": "-mod=readonly -buildvcs=false"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            complaints = _follow(process, title)
        if process.returncode != 0:
            raise StreamsError(
                f"Go could not build {title}; try again, or set GOPROXY. It said:\n" + "\n".join(complaints[-20:])
            )
        for name in packages:
            (Path(scratch) / name).replace(path(name))


def _follow(process: subprocess.Popen[str], title: str) -> list[str]:
    """Report how far a build is, until it ends. Returns its lines that are not names of compiled packages."""
    assert process.stderr is not None
    start = told = time.monotonic()
    print(f"  building {title}", file=sys.stderr, flush=True)
    packages, other = 0, []
    for line in process.stderr:
        if re.fullmatch(r"[\w./~-]+\n", line):
            packages += 1
        else:
            other.append(line.rstrip("\n"))
        if time.monotonic() - told > _PROGRESS_SECONDS:
            told = time.monotonic()
            print(f"  building {title}: {packages} packages, {told - start:.0f} s", file=sys.stderr, flush=True)
    process.wait()
    print(f"  building {title}: ended after {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return other


def _link_flags(source: _Source) -> str:
    """Without debugging information; Kubernetes' programs ask each other for the version written into them."""
    flags = ["-s", "-w"]
    version = _version(source)
    if source is _KUBERNETES:
        major, minor, _ = version.split(".")
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            said = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
            flags += [f"-X {package}.{name}={value}" for name, value in said.items()]
    if source is _HELM:
        flags.append(f"-X helm.sh/helm/v3/internal/version.version=v{version}")
    return " ".join(flags)


@cache
def _version(source: _Source) -> str:
    required = (_MODULES / source.folder / "go.mod").read_text("utf-8")
    found = re.search(rf"^(?:require |\t){re.escape(source.module)} v(\S+)$", required, re.MULTILINE)
    return found[1] if found else "1"  # the one module that is written here requires nothing


@contextmanager
def _alone() -> Iterator[None]:
    """One build at a time on this machine: Go shares its cache between builds, and the cores are few."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "cluster-build.lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("  waiting for another process that builds Kubernetes' programs", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
