"""Java's archive of the classes that the driver of ``engine: spark`` loads: with it a start takes half of the CPU.

Called on the driver's main thread. The archive is recorded by Java as it ends, which takes some seconds once, after the
driver has gone; the next driver finds it. Java refuses the archive of another build or of other jars, or with classes
from another place. So it is kept beside a home of Spark's that stays, one for each of these.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from streamsapp.cache_folder import cache_dir
from streamsapp.clock import SystemClock

_CONDITIONS = ("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_SUBMIT_OPTS", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
#: The parts of a home that starting Java takes.
_PARTS = ("bin", "conf", "jars")
#: A path that needs no quotes among Java's options.
_PLAIN = re.compile(r"[\w./+-]+")
#: Java reports classes that it leaves out; a damaged archive is to be refused, not run.
_ALWAYS = "-Xlog:cds*=off -XX:+VerifySharedSpaces"
#: A process that was killed has recorded nothing; another one tries after a day.
_AGAIN_MS = 86_400_000


def lasting_home(installed: Path, java: Path) -> Path | None:
    """The home of this Java and these jars in the cache folder; nothing if it cannot be kept there, or if there are
    more classes than those of the jars."""
    if os.environ.keys() & set(_CONDITIONS) or (installed / "conf").exists():
        return None
    try:
        home = cache_dir() / f"spark-{_key(installed, java)}"
        if not home.exists():
            _make(home, installed)
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


def archive_options(home: Path) -> str:
    """The options with which Java reads the archive of a lasting home, or records it; none while another does."""
    archive, recorded = home / "classes.jsa", home / "recorded.jsa"
    with suppress(OSError):
        if not archive.exists() and _complete(recorded):
            recorded.replace(archive)
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive} {_ALWAYS}"
    return f"-XX:ArchiveClassesAtExit={recorded} {_ALWAYS}" if _is_first(recorded) else ""


def _key(installed: Path, java: Path) -> str:
    binary = java.resolve()
    jars = ((path.name, path.stat()) for path in sorted((installed / "jars").iterdir()))
    parts = [str(installed), str(binary), str(binary.stat().st_mtime_ns)]
    parts += [f"{name}:{found.st_size}:{found.st_mtime_ns}" for name, found in jars]
    return sha256("\n".join(parts).encode()).hexdigest()[:20]


def _make(home: Path, installed: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        link_parts(made, installed)
        made.rename(home)
    except OSError:
        if not home.is_dir():  # else another process was faster
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _complete(recorded: Path) -> bool:
    """Say if Java has written the file to its end: its first bytes come last."""
    try:
        with recorded.open("rb") as file:
            return any(file.read(4))
    except OSError:
        return False


def _is_first(recorded: Path) -> bool:
    """Take the right to record."""
    try:
        with suppress(FileNotFoundError):
            if recorded.stat().st_mtime * 1000 < SystemClock().now_ms() - _AGAIN_MS:
                recorded.unlink()
        recorded.touch(exist_ok=False)
    except OSError:
        return False
    return True
