"""Brings Apache Kafka's jars into the user's cache, once per version, as a list in this package pins them.

Called by ``streamsapp local``, by the embedded broker and by the set-up, on the caller's thread. A folder of jars has
its name only when it is whole; one process fetches, and others wait for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from streamsapp.cache_folder import CACHE_VARIABLE, cache_dir
from streamsapp.errors import StreamsError
from streamsapp.local.downloads import Artifact, Downloads, artifacts_of
from streamsapp.local.repository import repository

log = logging.getLogger(__name__)

#: The newest version whose artifacts are complete on Maven Central; also the version behaviour is compared against.
KAFKA_VERSION = "4.4.0"
#: The broker with all that it needs, and the logger that it writes with; ``make jars`` makes it.
_LIST = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.jars")


class Jars:
    """Some jars, in a folder of the cache that has their name."""

    def __init__(self, name: str, artifacts: Sequence[Artifact]) -> None:
        self._artifacts = artifacts
        digest = hashlib.sha256("".join(each.sha256 for each in artifacts).encode()).hexdigest()
        self._name = f"{name}-{digest[:8]}"

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(each.size for each in self._artifacts)

    @property
    def is_fetched(self) -> bool:
        """If :meth:`folder` answers at once."""
        return (cache_dir() / self._name).is_dir()

    def folder(self, count: Callable[[int], None] = lambda _: None) -> Path:
        """Returns the folder; its files are fetched the first time. ``count`` is called with the bytes that came.

        Raises ``StreamsError`` where a file cannot be had or the cache cannot be written, and ``UserInputError`` for a
        mirror that cannot be used.
        """
        target = cache_dir() / self._name
        if target.is_dir():
            return target
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _alone(target.with_name(f"{self._name}.lock")):
                if not target.is_dir():
                    self._fetch(target, count)
        except OSError as error:
            raise StreamsError(
                f"{target.parent}: jars cannot be kept here: {error.strerror or error}; make room or give the right to "
                f"write, or name another folder in {CACHE_VARIABLE}"
            ) from error
        return target

    def _fetch(self, target: Path, count: Callable[[int], None]) -> None:
        """Jars that came before a failure are kept beside the folder, and are not fetched again."""
        source = repository()
        log.info("fetching %s from %s", self._name, source.url)
        unfinished = target.with_name(f"{self._name}.unfinished")
        unfinished.mkdir(exist_ok=True)
        Downloads(source, count).bring(self._artifacts, unfinished)
        unfinished.rename(target)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("waiting for another process that is fetching the same files")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


#: The jars of the broker.
KAFKA = Jars(f"kafka-{KAFKA_VERSION}", artifacts_of(_LIST.read_text("ascii")))


def kafka_jars() -> Path:
    """Returns the directory of the broker's jars; fetched the first time it is asked for."""
    return KAFKA.folder()
