"""Java's archive of the classes that a driver loads: with it a start takes half of the CPU.

Called on the driver's main thread. The archive is recorded by Java as it ends, which takes some seconds once, after the
driver has gone; the next driver finds it. Java refuses the archive of another build or of other jars, or with classes
from another place. So it is kept beside a home of Spark's that stays, one for each Java and each installed Spark.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from streamsapp.cache_folder import cache_dir

_CONDITIONS = ("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_SUBMIT_OPTS", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
#: The parts of a home that starting Java takes.
_PARTS = ("bin", "conf", "jars")
#: The Java that a lasting home is for.
_JAVA = "java"
#: The archives of a lasting home, and what Java writes until it is whole; each has a build in its name.
_CLASSES, _RECORDED = "classes", "recorded"
#: Lasting homes, and what processes left that were killed while they made one.
_HOMES = "spark-" + 20 * "[0-9a-f]" + "*"
#: A path that needs no quotes among Java's options.
_PLAIN = re.compile(r"[\w./+-]+")
#: Java reports classes that it leaves out; a damaged archive is to be refused, not run.
_ALWAYS = "-Xlog:cds*=off -XX:+VerifySharedSpaces"


class ClassArchive(NamedTuple):
    """The options with which Java reads the archive of a home, or records it; by default neither."""

    options: str = ""
    #: A locked file. A Java that records inherits it: its end, of whatever kind, releases the lock.
    lock: int | None = None
    #: The file that says that a query ran: what Java loads for less than that is no archive.
    ran: Path | None = None

    def keep(self) -> None:
        """Have the next driver make the archive of the classes that Java records."""
        if self.ran is not None:
            with suppress(OSError):
                self.ran.touch()


def lasting_home(installed: Path, java: Path) -> Path | None:
    """The home of this Java and this Spark in the cache folder; nothing if it cannot be kept there, or if there are
    more classes than those of the jars."""
    if os.environ.keys() & set(_CONDITIONS) or (installed / "conf").exists():
        return None
    try:
        home = cache_dir() / f"spark-{_digest(str(installed), str(java.resolve()))}"
        if not home.exists():
            _remove_homes_of_nothing(home.parent)
            _make(home, installed, java)
        found = home.stat()
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return None
    ours = found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022
    return home if ours and _PLAIN.fullmatch(str(home)) else None


def link_parts(home: Path, installed: Path) -> None:
    """Fill a new home."""
    for part in _PARTS:
        if (installed / part).exists():
            (home / part).symlink_to(installed / part)


def class_archive(home: Path, *, records: bool) -> ClassArchive:
    """The archive of a lasting home. If there is none, Java is to record it where ``records`` says so, unless another
    one does or the home cannot be written to."""
    try:
        build = _build(home)
    except OSError:  # Java or Spark has gone meanwhile
        return ClassArchive()
    archive, recorded, ran = (home / f"{kind}-{build}" for kind in (_CLASSES, _RECORDED, "ran"))
    if archive.exists():
        return _reading(archive)
    if (lock := _locked(home / "recording.lock")) is None:
        return ClassArchive()
    with suppress(OSError):
        if ran.exists():
            _publish(recorded, archive)
        ran.unlink(missing_ok=True)
    if records and not archive.exists():
        return ClassArchive(f"-XX:ArchiveClassesAtExit={recorded} {_ALWAYS}", lock, ran)
    os.close(lock)
    return _reading(archive) if archive.exists() else ClassArchive()


def _reading(archive: Path) -> ClassArchive:
    return ClassArchive(f"-XX:SharedArchiveFile={archive} {_ALWAYS}")


def _build(home: Path) -> str:
    """Names Java and jars as they are now. Times are in seconds: an image's files have no others."""
    jars = sorted((home / "jars").iterdir())
    files = ((path.name, path.stat()) for path in ((home / _JAVA).resolve(), *jars))
    return _digest(*(f"{name}:{found.st_size}:{int(found.st_mtime)}" for name, found in files))


def _digest(*parts: str) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:20]


def _remove_homes_of_nothing(cache: Path) -> None:
    """Remove the homes whose Java or Spark is gone."""
    for home in cache.glob(_HOMES):
        links = [home / name for name in ("jars", _JAVA)]
        if any(link.is_symlink() and not link.exists() for link in links):
            shutil.rmtree(home, ignore_errors=True)


def _make(home: Path, installed: Path, java: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        link_parts(made, installed)
        (made / _JAVA).symlink_to(java.resolve())
        made.rename(home)
    except OSError:
        if not home.is_dir():  # else another process was faster
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _locked(path: Path) -> int | None:
    """Take the right to record. A Java that has it may have been started by a driver that is gone."""
    with suppress(OSError):
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
        else:
            return lock
    return None


def _publish(recorded: Path, archive: Path) -> None:
    """Make an archive of what was recorded, if Java has written it to its end: its first bytes come last."""
    with recorded.open("rb") as file:
        if not any(file.read(4)):
            return
    recorded.replace(archive)
    for kind in (_CLASSES, _RECORDED):
        for other in archive.parent.glob(f"{kind}-*"):  # of a Java or of jars that were replaced
            if other != archive:
                other.unlink(missing_ok=True)
