"""Builds the project's images from this tree without a registry, and brings them into the node.

Called before the node starts, on the caller's thread. The base image is a minimal Debian or Ubuntu with Python, made of
the distribution's packages; where docker and a registry are at hand the same Dockerfiles build on the public one.
An image that has not changed is neither built nor imported again.
"""

from __future__ import annotations

import configparser
import hashlib
import io
import json
import platform
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from cluster import binaries
from cluster.configuration import PAUSE_IMAGE, is_overlay
from cluster.layout import ClusterLayout
from cluster.node import ctr
from streamsapp.errors import StreamsError
from terminal import step

ROOT = Path(__file__).resolve().parent.parent.parent
RUNTIME_IMAGE = "localhost/streamsapp-runtime:dev"
OPERATOR_IMAGE = "localhost/streamsapp-operator:dev"
SPARK_IMAGE = "localhost/streamsapp-spark:dev"
BASE_IMAGE = "localhost/streamsapp-base:1"
_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_BASE_PACKAGES = "python3,python3-venv,ca-certificates"
_OLD_LAYERS = 50
_ATTEMPTS = 3
_UNNEEDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")


class Image(NamedTuple):
    """One image and what it is built from."""

    name: str
    dockerfile: str
    #: Files and folders of the tree that its content comes from.
    sources: Sequence[str]


_WHEEL = (
    "images/build.lock",
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    "crds",
    "charts",
    "runtime",
    "operator",
    "spark",
)
IMAGES = (
    Image(RUNTIME_IMAGE, "images/runtime.Dockerfile", ("images/runtime.lock", *_WHEEL)),
    Image(OPERATOR_IMAGE, "images/operator.Dockerfile", ("images/operator.lock", *_WHEEL)),
)
#: For bootstraps; made when it is asked for, as it is several times as large as the others together.
SPARK = Image(SPARK_IMAGE, "images/spark.Dockerfile", ("images/spark.lock", *_WHEEL))


class Images:
    """The images of one cluster: buildah's store, and what of it the node has."""

    def __init__(self, layout: ClusterLayout) -> None:
        self._layout = layout
        self._built = _Record(layout.images / "built.json")
        self._imported = _Record(layout.containers / "imported.json")

    def build(self, images: Sequence[Image] = IMAGES) -> None:
        """Build the images anew if the tree has changed."""
        base = f"{_codename()} {_BASE_PACKAGES}"
        if self._built.get(BASE_IMAGE) != base:
            with step(f"base image, {_codename()} with Python"):
                self._build_base()
            self._built.set(BASE_IMAGE, base)
        if self._built.get(PAUSE_IMAGE) != (program := str(binaries.path("pause"))):
            with step("pause image"):
                self._build_pause()
            self._built.set(PAUSE_IMAGE, program)
        for image in images:
            wanted = fingerprint([base], [ROOT / each for each in (image.dockerfile, *image.sources)])
            if self._built.get(image.name) != wanted:
                with step(f"image {image.name}"):
                    self._build(image)
                self._built.set(image.name, wanted)
        self._forget_old_layers()

    def bring_in(self, images: Sequence[Image] = IMAGES) -> None:
        """Import the images that the node does not have yet; containerd runs."""
        for name in (PAUSE_IMAGE, *(image.name for image in images)):
            wanted = self._buildah("images", "--quiet", "--no-trunc", name).strip()
            if self._imported.get(name) != wanted:
                with step(f"importing {name}"):
                    self._import(name)
                self._imported.set(name, wanted)

    def _build_base(self) -> None:
        with tempfile.TemporaryDirectory(dir=self._layout.images) as scratch:
            archive = Path(scratch) / "base.tar"
            options = ["--quiet", "--variant=minbase", f"--include={_BASE_PACKAGES}"]
            options += [f"--dpkgopt=path-exclude={each}" for each in _UNNEEDED]
            clean = '--customize-hook=rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/*.log'
            _run(["mmdebstrap", *options, clean, _codename(), str(archive)])
            container = self._buildah("from", "scratch").strip()
            self._buildah("add", "--quiet", container, str(archive), "/")
            self._buildah("commit", "--quiet", "--rm", container, BASE_IMAGE)

    def _build_pause(self) -> None:
        container = self._buildah("from", "scratch").strip()
        self._buildah("copy", "--quiet", container, str(binaries.executable("pause")), "/pause")
        self._buildah("config", "--user=65535:65535", '--entrypoint=["/pause"]', container)
        self._buildah("commit", "--quiet", "--rm", container, PAUSE_IMAGE)

    def _build(self, image: Image) -> None:
        """pip in the build finds packages as pip here does; neither its settings nor the authorities get into it."""
        with tempfile.TemporaryDirectory(dir=self._layout.images) as scratch:
            settings = Path(scratch) / "pip.conf"
            settings.write_text(_pip_settings(), encoding="utf-8")
            mounts = [f"--volume={settings}:/etc/pip.conf:ro", f"--volume={_AUTHORITIES}:{_AUTHORITIES}:ro"]
            options = ["--isolation=chroot", "--network=host", "--layers", f"--build-arg=BASE={BASE_IMAGE}"]
            self._buildah("bud", *options, *mounts, f"--file={image.dockerfile}", f"--tag={image.name}", ".")

    def _import(self, name: str) -> None:
        with tempfile.TemporaryDirectory(dir=self._layout.images) as scratch:
            archive = Path(scratch) / "image.tar"
            # Docker's format, because it is the one that leaves layers uncompressed: twice as fast.
            self._buildah("push", "--quiet", name, f"docker-archive:{archive}:{name}")
            # Seen once on a busy machine: the image was taken, and its layers were not. Importing again takes both.
            for attempt in range(1, _ATTEMPTS + 1):
                answer = ctr(self._layout, "images", "import", str(archive))
                if answer.returncode == 0:
                    return
                print(f"  containerd did not take {name}, attempt {attempt}: {answer.stderr.strip()}", flush=True)
            raise StreamsError(f"containerd did not take the image {name}: {answer.stderr.strip()}")

    def _forget_old_layers(self) -> None:
        """Each build leaves what it was made of, some 20 MB, and the next one uses a part of it."""
        if len(self._buildah("images", "--quiet", "--filter=dangling=true").split()) > _OLD_LAYERS:
            self._buildah("rmi", "--prune")

    def _buildah(self, *arguments: str) -> str:
        driver = "vfs" if is_overlay(self._layout.images) else "overlay"
        store = [f"--root={self._layout.images / 'store'}", f"--runroot={self._layout.images / 'run'}"]
        return _run(["buildah", *store, f"--storage-driver={driver}", *arguments])


class _Record:
    """Remembers the steps that were done last, by name, so that they are not done again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, name: str) -> str | None:
        return self._read().get(name)

    def set(self, name: str, value: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({**self._read(), name: value}, indent=1), encoding="utf-8")

    def _read(self) -> dict[str, str]:
        content: dict[str, str] = json.loads(self._path.read_text("utf-8")) if self._path.exists() else {}
        return content


def fingerprint(words: Iterable[str], sources: Iterable[Path]) -> str:
    """Changes with any of the words, and with the name or content of any file in the sources that git would keep."""
    digest = hashlib.sha256("\n".join(words).encode())
    for source in sources:
        for file in [source] if source.is_file() else sorted(source.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".so":
                digest.update(f"\n{file.relative_to(source.parent)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _pip_settings() -> str:
    """Returns pip's configuration here, from files and the environment, as one file."""
    answer = subprocess.run(["python3", "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    settings = configparser.RawConfigParser()
    settings.add_section("global")
    for line in answer.stdout.splitlines():
        name, _, value = line.partition("=")
        if name.startswith(("global.", ":env:.")):
            settings.set("global", name.rpartition(".")[2], value.strip("'\""))
    text = io.StringIO()
    settings.write(text)
    return text.getvalue()


def _codename() -> str:
    """This machine's own distribution: its packages are the ones this machine can get."""
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def _run(command: list[str]) -> str:
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        said = f"{answer.stdout}{answer.stderr}".strip().splitlines()
        raise StreamsError("\n".join([f"{command[0]} failed: {' '.join(command[1:])}", *said[-20:]]))
    return answer.stdout
