"""Downloads a pinned list of Maven's artifacts into a folder, several at a time, each checked by its SHA-256.

Called by ``jars.py`` on the caller's thread, which waits; each file is brought on one of a few threads. A connection
that breaks is tried again from the byte where it broke, in the same process or in a later one.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from threading import Event, Lock
from urllib.error import HTTPError, URLError
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

from streamsapp.errors import StreamsError
from streamsapp.local.repository import VARIABLE, Repository

_CONNECTIONS = 8
_CHUNK = 1 << 16
#: Seconds without a byte.
_TIMEOUT = 20.0
#: A failure that may pass is tried again after so many seconds.
_PAUSES = (0.5, 1.0, 2.0)
#: Answers of HTTP that may be others in a moment.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Artifact:
    """A file of a Maven repository: ``path`` below its address, the SHA-256 in hexadecimal, the size in bytes."""

    path: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def artifacts_of(text: str) -> list[Artifact]:
    """Reads a list: on each line a SHA-256, a size and a path; lines that begin with ``#`` are for people."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return [Artifact(path, sha256, int(size)) for sha256, size, path in lines]


class _PassingError(Exception):
    """Another try may help; says what went wrong."""


class _StoppedError(Exception):
    """Another file has failed, or the user ended the program."""


class Downloads:
    """The downloads of some artifacts from one repository."""

    def __init__(self, source: Repository, count: Callable[[int], None] = lambda _: None) -> None:
        """``count`` is called on several threads, one at a time, with the number of bytes that came. It is negative
        where bytes have to be fetched again."""
        self._source = source
        self._opener = _opener(source)
        self._count = count
        self._counting = Lock()
        self._stopped = Event()

    def bring(self, artifacts: Sequence[Artifact], folder: Path) -> None:
        """Brings all of them into the folder; files that are there already, whole, are left there.

        Raises ``StreamsError`` for the first that cannot be had, and ``OSError`` where the folder cannot be written.
        """
        with ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="download") as threads:
            try:
                largest_first = sorted(artifacts, key=lambda each: -each.size)
                for done in as_completed([threads.submit(self._bring, each, folder) for each in largest_first]):
                    done.result()
            finally:
                self._stopped.set()
                threads.shutdown(cancel_futures=True)

    def _bring(self, artifact: Artifact, folder: Path) -> None:
        target, part = folder / artifact.name, folder / f"{artifact.name}.part"
        if target.exists() and _sha256(target) == artifact.sha256:
            self._tell(artifact.size)
            return
        self._tell(part.stat().st_size if part.exists() else 0)
        for pause in (*_PAUSES, None):
            try:
                self._receive(artifact, part)
                break
            except _PassingError as error:
                if pause is None:
                    raise self._failed(artifact, str(error)) from error
                if self._stopped.wait(pause):
                    return
            except _StoppedError:
                return
        part.replace(target)

    def _receive(self, artifact: Artifact, part: Path) -> None:
        """Gets the missing part of the file. Afterwards it is right, or is gone where its bytes are wrong."""
        have = part.stat().st_size if part.exists() else 0
        if have < artifact.size or not part.exists():
            self._append(artifact, part, have)
        if part.stat().st_size < artifact.size:
            raise _PassingError("the connection ended before the file did")
        found = _sha256(part)
        if found == artifact.sha256:
            return
        self._tell(-part.stat().st_size)
        part.unlink()
        if have:  # the bytes of two connections may be of two files
            raise _PassingError("it is not the file that the bytes of before were of")
        raise self._failed(artifact, f"it has another content: SHA-256 {found}, expected {artifact.sha256}")

    def _append(self, artifact: Artifact, part: Path, have: int) -> None:
        request = Request(f"{self._source.url}/{artifact.path}", headers={"User-Agent": "streamsapp"})  # noqa: S310
        if self._source.authorization is not None:  # it is not for the host that a repository may send us on to
            request.add_unredirected_header("Authorization", self._source.authorization)
        if have:
            request.add_header("Range", f"bytes={have}-")
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                goes_on = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
                if have and not goes_on:
                    self._tell(-have)
                with part.open("ab" if goes_on else "wb") as file:
                    while file.tell() <= artifact.size and (chunk := answer.read(_CHUNK)):
                        if self._stopped.is_set():
                            raise _StoppedError
                        file.write(chunk)
                        self._tell(len(chunk))
        except (URLError, HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            self._sort(artifact, part, error)

    def _sort(self, artifact: Artifact, part: Path, error: Exception) -> None:
        """Raises what an error of the network means."""
        if isinstance(error, HTTPError):
            with error:
                if error.code == 416:  # there is less than we have
                    self._tell(-part.stat().st_size)
                    part.unlink()
                    raise _PassingError("the repository has less of it than came before") from error
                said = f"the repository answered {error.code} {error.reason}"
                if error.code in _PASSING:
                    raise _PassingError(said) from error
                raise self._failed(artifact, said) from error
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise self._failed(
                artifact, f"the certificate is not trusted ({reason.verify_message}); SSL_CERT_FILE names authorities"
            ) from error
        if isinstance(reason, FileNotFoundError | IsADirectoryError):  # of a repository in a folder
            raise self._failed(artifact, "the file is not there") from error
        raise _PassingError(str(reason) or type(reason).__name__) from error

    def _failed(self, artifact: Artifact, reason: str) -> StreamsError:
        if self._source.named_by:
            remedy = f"correct the repository that {self._source.named_by} names"
        else:
            remedy = (
                "where the network needs a proxy, set HTTPS_PROXY; where it has a mirror of Maven Central, name that "
                f"in {VARIABLE} or in ~/.m2/settings.xml"
            )
        return StreamsError(f"{self._source.url}/{artifact.path} cannot be fetched: {reason}; try again, or {remedy}")

    def _tell(self, count: int) -> None:
        with self._counting:
            self._count(count)


def _opener(source: Repository) -> OpenerDirector:
    return build_opener() if source.proxies is None else build_opener(ProxyHandler(dict(source.proxies)))


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
