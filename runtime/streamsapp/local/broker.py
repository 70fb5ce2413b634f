"""A real single-node Apache Kafka (KRaft, controller and broker in one JVM) for development and tests.

Started and stopped by ``streamsapp local``, the demo and test fixtures, on the caller's thread. The broker runs in a
process of its own. It ends with the process that started it, however that ends, unless ``outlives_starter`` is set. Its
data, settings and log (``broker.log``) live in the directory it is given, which it has for itself. A broker that is
started again on the same directory and object keeps its address and its topics.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from random import SystemRandom
from types import TracebackType

from streamsapp.cache_folder import cache_dir
from streamsapp.config.memory import available_memory
from streamsapp.errors import StreamsError, UserInputError
from streamsapp.local.jars import kafka_jars
from streamsapp.local.java import find_java

_HOST = "127.0.0.1"
#: Below the ports that the system gives to connections, from 32,768 on Linux, and below Kubernetes' own for services.
_SERVERS_PORTS = range(15_000, 30_000)
#: A process is not given a port again while the server that it was for may not listen yet.
_turns = count(SystemRandom().randrange(len(_SERVERS_PORTS)))
_CLUSTER_ID = "c3RyZWFtc2FwcC1sb2NhbA"
_STARTED = b"Kafka Server started"
_POLL_SECONDS = 0.02
#: The broker's process, and the process that formats its folder, hold it as long as they live.
_LOCK = "broker.lock"

#: Reads the number of the broker's process from its standard input, waits for the end of that, and ends the broker. The
#: process that started the broker has the other end, and so has the broker's process until it has written its number.
#: So there is no moment without a guard.
_GUARD = (
    'read -r broker || exit; read -r _; kill "$broker" || exit; '
    'for _ in $(seq 30); do sleep 1; kill -0 "$broker" || exit; done; kill -KILL "$broker"'
)
_GUARDED = 'echo $$ >&0; exec "$@" </dev/null'

#: C1 only and the serial collector start fastest and leave the cores to the program under development or test. New
#: objects have a small part of the heap: with 120 MB, as it would be, each collection stopped the broker for 14 to 18
#: ms, every two seconds when it had little to do; with 32 MB for half as long, and it takes 90 MB less of memory.
_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmn32m", "-Xlog:disable", "-Xlog:all=error")

#: In MiB. With less than the least a broker spends its time collecting garbage; more than the most it never needs.
_LEAST_HEAP, _MOST_HEAP = 160, 512

#: Warnings, and the one line that says that the broker is ready.
_LOG_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)

#: How long, in milliseconds, a broker that stands still, as the machine may, stays registered with its controller.
#: Otherwise its partitions have no leader, transactions can lose their markers (decision 7), and clients their only
#: broker. A broker that is started again on its files may begin only when the registration of before has expired.
_FIRST_SESSION, _LATER_SESSION = "60000", "2000"

#: A cluster of one, groups that form at once, and topics that exist only when a client creates them.
_DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    # A partition without a leader makes the transaction coordinator leave out its markers, and readers of committed
    # records wait for ever. With this setting the moment in which that can happen is shorter (decision 7).
    "controlled.shutdown.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
}


class EmbeddedBroker:
    """Runs one Kafka broker on this machine. As a context manager it is started on entry and stopped on exit."""

    def __init__(
        self,
        data_dir: Path | str,
        port: int | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        start_timeout: float = 60.0,
        outlives_starter: bool = False,
    ) -> None:
        """``port`` is a free one unless given; ``properties`` are added to the broker's ``server.properties``. A broker
        that ``outlives_starter`` runs on when the process that started it is gone."""
        self.data_dir = Path(data_dir).absolute()
        self.port = port or free_port()
        self._controller_port = free_port()
        self._properties = dict(properties or {})
        self._start_timeout = start_timeout
        self._outlives_starter = outlives_starter
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: _Guard | None = None
        self._class_archive: _ClassArchive | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The value of a client's ``bootstrap.servers``."""
        return f"{_HOST}:{self.port}"

    @property
    def log_file(self) -> Path:
        """The file that the broker wrote its log to, over all its starts."""
        return self.data_dir / "broker.log"

    @property
    def pid(self) -> int | None:
        """The broker's process while it runs."""
        return self._process.pid if self._process else None

    @property
    def ended_with(self) -> int | None:
        """The exit code of a broker that was started and has ended by itself; ``None`` while it runs, or if it was
        stopped."""
        process = self._process
        return None if process is None else process.poll()

    def start(self) -> EmbeddedBroker:
        """Start the broker and wait until it serves requests; formats an empty data directory first."""
        if self._process is not None:
            raise StreamsError(f"the broker in {self.data_dir} already runs: stop it before it is started again")
        self._check_folder()
        java, jars = find_java(), kafka_jars()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with _locked(self.data_dir, self._start_timeout) as lock:
            self._launch(java, jars, lock)
        return self

    def _launch(self, java: Path, jars: Path, lock: int) -> None:
        if not is_free(self.port):
            raise UserInputError(
                f"port {self.port} is taken by another program: stop that, or give the broker another port "
                "(`streamsapp local --broker-port`)"
            )
        settings = self._write_settings()
        self._class_archive = _ClassArchive.of(java)
        launch = [
            str(java),
            f"-Xmx{heap_mebibytes(available_memory())}m",
            *_JVM_OPTIONS,
            *_LOG_OPTIONS,
            "-cp",
            f"{jars}/*",
        ]
        if not self._was_started:
            self._run_to_end([*launch, *self._class_archive.reading(), "kafka.tools.StorageTool"], settings, lock)
        log_start = self.log_file.stat().st_size if self.log_file.exists() else 0
        command = [*launch, *self._class_archive.reading_or_recording(), "kafka.Kafka", str(settings)]
        try:
            self._run(command, lock)
            self._wait_until_ready(log_start)
        except BaseException:
            self.kill()
            raise

    def _run(self, command: list[str], lock: int) -> None:
        stdin: int = subprocess.DEVNULL
        if not self._outlives_starter:
            self._guard = _Guard()
            command, stdin = ["sh", "-c", _GUARDED, "sh", *command], self._guard.told_by
        with self.log_file.open("ab") as log:
            # A session of its own: Ctrl-C reaches the caller first, which stops the broker after its clients.
            self._process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock,),
                env=_environment(),
            )

    def stop(self, timeout: float = 30.0) -> None:
        """Stop the broker in good order; a broker that has not ended after ``timeout`` seconds is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._dismiss_guard()
        if self._class_archive is not None:
            self._class_archive.publish()

    def kill(self) -> None:
        """End the broker as a crash would: SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        self._dismiss_guard()

    def restart(self) -> None:
        """Stop in good order and start again with the same address and data."""
        self.stop()
        self.start()

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _dismiss_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.dismiss()

    @property
    def _was_started(self) -> bool:
        return (self.data_dir / "logs" / "meta.properties").exists()

    def _write_settings(self) -> Path:
        addresses = {
            "controller.quorum.voters": f"1@{_HOST}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{_HOST}:{self.port},CONTROLLER://{_HOST}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{self.port}",
            "log.dirs": f"{self.data_dir}/logs",
        }
        settings = self.data_dir / "server.properties"
        session = {"broker.session.timeout.ms": _LATER_SESSION if self._was_started else _FIRST_SESSION}
        values = {**_DEFAULTS, **session, **addresses, **self._properties}
        lines = [f"{name}={_escaped(value)}\n" for name, value in values.items()]
        settings.write_text("".join(lines), encoding="ascii")
        return settings

    def _check_folder(self) -> None:
        """Raises ``UserInputError`` for a folder that cannot be written in Kafka's settings."""
        folder = str(self.data_dir)
        if "," in folder:
            raise UserInputError(
                f"{folder}: has a comma, at which Kafka divides its folders; name another one (`streamsapp local "
                "--data-dir`)"
            )
        try:
            folder.encode("utf-8")
        except UnicodeEncodeError:
            raise UserInputError(
                f"{os.fsencode(folder)!r}: is not UTF-8, which Java needs; name another folder (`streamsapp local "
                "--data-dir`)"
            ) from None

    def _run_to_end(self, launch: list[str], settings: Path, lock: int) -> None:
        command = [*launch, "format", "-t", _CLUSTER_ID, "-c", str(settings)]
        with self.log_file.open("ab") as log:
            answer = subprocess.run(command, stdout=log, stderr=log, pass_fds=(lock,), check=False, env=_environment())
        if answer.returncode != 0:
            raise self._failed("could not format its data directory", 0)

    def _wait_until_ready(self, log_start: int) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self._start_timeout
        while _STARTED not in self._log_since(log_start):
            if self._process.poll() is not None:
                raise self._failed(f"ended with {self._process.returncode} instead of starting", log_start)
            if time.monotonic() > deadline:
                raise self._failed(f"was not ready after {self._start_timeout:g} s", log_start)
            time.sleep(_POLL_SECONDS)

    def _failed(self, what: str, log_start: int) -> StreamsError:
        text = self._log_since(log_start).decode(errors="replace")
        causes = re.findall(r"^.*(?: ERROR |Exception: ).*$", text, re.MULTILINE) or text.splitlines()[-5:]
        return StreamsError(f"the Kafka broker {what}; see {self.log_file}:\n" + "\n".join(causes[:5]))

    def _log_since(self, position: int) -> bytes:
        with self.log_file.open("rb") as log:
            log.seek(position)
            return log.read()


def wait_until_ended(data_dir: Path, timeout: float = 60.0) -> None:
    """Returns when no broker writes to the directory any more: one whose starter was killed goes on for a moment.
    Raises ``StreamsError`` after ``timeout`` seconds; that of before is killed within half of them."""
    with suppress(FileNotFoundError), _locked(data_dir, timeout):
        pass


@contextmanager
def _locked(data_dir: Path, timeout: float) -> Iterator[int]:
    """A lock on the directory that the broker inherits. One whose owner is gone ends soon, and is waited for."""
    deadline = time.monotonic() + timeout
    with (data_dir / _LOCK).open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StreamsError(f"another broker runs in {data_dir}: stop it first") from None
                time.sleep(_POLL_SECONDS)
        yield lock.fileno()


class _ClassArchive:
    """The JVM's archive of loaded classes (AppCDS): with it a broker starts in half the time.

    The first broker that is stopped in good order records it, all later ones on this machine read it. A JVM refuses
    the archive of another build, so each build has its own.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._recording: Path | None = None

    @classmethod
    def of(cls, java: Path) -> _ClassArchive:
        binary = java.resolve()
        build = hashlib.sha256(f"{binary}:{binary.stat().st_mtime_ns}".encode()).hexdigest()[:12]
        return cls(cache_dir() / f"{kafka_jars().name}-{build}.jsa")

    def reading(self) -> list[str]:
        return [f"-XX:SharedArchiveFile={self._path}"] if self._path.exists() else []

    def reading_or_recording(self) -> list[str]:
        if self._path.exists():
            return self.reading()
        self._recording = self._path.with_suffix(f".{os.getpid()}")
        return [f"-XX:ArchiveClassesAtExit={self._recording}"]

    def publish(self) -> None:
        """Renames a finished recording into place; there is none when the broker did not end by itself."""
        if self._recording is not None:
            with suppress(FileNotFoundError):
                self._recording.replace(self._path)


class _Guard:
    """A process that ends the broker when the process that started it is gone, however it ended."""

    def __init__(self) -> None:
        #: No other process inherits this end but the broker's, as its standard input, until it has written its number.
        end, self.told_by = os.pipe()
        try:
            # In a session of its own: what ends the starter must not end the guard.
            self._process = subprocess.Popen(
                ["sh", "-c", _GUARD], stdin=end, stderr=subprocess.DEVNULL, start_new_session=True
            )
        finally:
            os.close(end)

    def dismiss(self) -> None:
        """The broker has ended."""
        self._process.kill()  # before its input ends: the process id may be another's by now
        self._process.wait()
        os.close(self.told_by)


def _escaped(value: str) -> str:
    """A value as Java reads it from a file of properties, which is ISO-8859-1."""
    return "".join("\\\\" if each == "\\" else each if " " <= each <= "~" else _java_escape(each) for each in value)


def _java_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _environment() -> dict[str, str]:
    """Java takes names of files in the locale's encoding; in that of C it finds none that is not ASCII."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def heap_mebibytes(available: int) -> int:
    """Returns the broker's heap for so many bytes of memory; an application needs most of them."""
    return min(max(available // 8 >> 20, _LEAST_HEAP), _MOST_HEAP)


def is_free(port: int) -> bool:
    """Says whether a server could listen on a port of this machine's loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise UserInputError(
                f"port {port} of {_HOST} cannot be used: {error.strerror}; choose another port"
            ) from error
        return True


def free_port() -> int:
    """Returns a port for a server that is about to start: no process listens on it. The system gives it to no
    connection before the server listens."""
    for _ in range(100):
        port = _SERVERS_PORTS[next(_turns) % len(_SERVERS_PORTS)]
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_HOST, port))
            return port
    raise StreamsError(f"none of 100 ports from {_SERVERS_PORTS.start} to {_SERVERS_PORTS.stop} is free")
