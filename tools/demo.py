"""Word count on a real Kafka broker over the sources of Python's standard library, every count verified.

Run by ``make demo``; a folder given as argument is read instead. Starts a broker, writes every line to a topic, and
runs ``examples/wordcount/streamsapp.yaml`` as a pod does with ``streamsapp run``. It follows the output topic, and
compares the last count of each word with a count of the same files made without the library. Exit code 0 when all are
equal. Everything it started ends with it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streamsapp.errors import StreamsAppError, StreamsError, UserInputError
from streamsapp.local.broker import EmbeddedBroker
from streamsapp.local.jars import KAFKA_VERSION
from terminal import Progress, step

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "examples" / "wordcount" / "streamsapp.yaml"
STREAMSAPP = Path(sys.executable).parent / "streamsapp"
PARTITIONS = 4
#: If other programs keep all cores busy, Spark has no result yet after a minute.
STALLED_SECONDS = 240.0
#: No update for so long: the application may be done, so the counts are worth adding up.
QUIET_SECONDS = 1.0


class Interruption:
    """The handler of the signals that end the demo: the first one raises ``KeyboardInterrupt``."""

    def __init__(self) -> None:
        self.came = False
        self._waits = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        first, self.came = not self.came, True
        if first and not self._waits:  # the clean-up that it begins is not to be cut short by the next
            raise KeyboardInterrupt

    @contextmanager
    def after(self) -> Iterator[None]:
        """A signal that comes in here raises at the end: a process that is being started is known only then."""
        before, self._waits = self.came, True
        try:
            yield
        finally:
            self._waits = False
        if self.came and not before:
            raise KeyboardInterrupt


_interruption = Interruption()


def main(run: Callable[[Path, Path], int]) -> int:
    """Call ``run`` with the folder to read and one to write into; the exit code, also for a signal or an error."""
    signal.signal(signal.SIGINT, _interruption)
    signal.signal(signal.SIGTERM, _interruption)
    try:
        with tempfile.TemporaryDirectory(prefix="streamsapp-demo-") as folder:
            return run(standard_library() if len(sys.argv) == 1 else Path(sys.argv[1]), Path(folder))
    except BaseException as error:
        if _interruption.came:  # the Kafka client's C code may have made another error out of the KeyboardInterrupt
            print("\nstopped", file=sys.stderr)
            return 130
        if isinstance(error, StreamsAppError | KafkaException):
            print(f"\nthe demo failed: {error}", file=sys.stderr)
            return 1
        raise


def run(sources: Path, folder: Path) -> int:
    """The demo from the first file read to the verdict; what it writes goes into ``folder``."""
    texts, expected = count(sources)
    with step(f"starting Apache Kafka {KAFKA_VERSION}"):
        broker = EmbeddedBroker(folder / "kafka").start()
    try:
        with step("writing every line to the topic lines"):
            create_topics(broker.bootstrap_servers)
            lines = feed(broker.bootstrap_servers, texts)
        print(f"  streamsapp run -f {MANIFEST.relative_to(ROOT)}", flush=True)
        with closing(OutputTopic(broker.bootstrap_servers)) as output:
            with application(broker.bootstrap_servers, folder) as app:
                seconds = follow(output, app, expected.total())
            output.read_rest()
            return report(expected, output.counts(), lines, seconds)
    finally:
        broker.stop()


def count(sources: Path) -> tuple[list[str], Counter[str]]:
    """The texts, and how often each word is in them."""
    with step("reading and counting the sources"):
        texts = read(sources)
        expected = Counter(word for text in texts for word in re.findall(r"\w+", text.lower()))
    if not expected:
        raise UserInputError(f"{sources} holds no Python files with words to count; name a folder that does")
    return texts, expected


def standard_library() -> Path:
    """Returns the folder of the standard library of the Python that runs this."""
    return Path(sysconfig.get_path("stdlib"))


def read(sources: Path) -> list[str]:
    """The text of every Python file below ``sources``, without a standard library's tests, which are more than half of
    it, and what was installed beside it."""
    others = {"site-packages", "dist-packages", "test", "tests"}
    paths = (path for path in sorted(sources.rglob("*.py")) if others.isdisjoint(path.relative_to(sources).parts))
    # Some files are in other encodings: bytes that are not UTF-8 count as U+FFFD.
    return [path.read_bytes().decode("utf-8", errors="replace") for path in paths if path.is_file()]


def client(servers: str) -> dict[str, str | int | float | bool]:
    """Settings of every client of the demo: errors come as exceptions, the client library's own log adds nothing."""
    return {"bootstrap.servers": servers, "log_level": 0}


def create_topics(servers: str) -> None:
    topics = [NewTopic(name, num_partitions=PARTITIONS) for name in ("lines", "counts")]
    admin = AdminClient(client(servers))
    for created in admin.create_topics(topics).values():
        created.result()


def feed(servers: str, texts: Sequence[str]) -> int:
    """Write every line to the topic ``lines``; returns how many there were."""
    producer = Producer({**client(servers), "linger.ms": 20, "compression.type": "lz4"})
    lines = 0
    for text in texts:
        for line in text.split("\n"):
            send(producer, line.encode())
            lines += 1
        producer.poll(0)
    if producer.flush(60) > 0:
        raise StreamsError("the broker did not take every line within a minute: is this machine out of disk?")
    return lines


def send(producer: Producer, line: bytes) -> None:
    while True:
        try:
            producer.produce("lines", line)
        except BufferError:  # the queue is full: let the broker catch up
            producer.poll(0.1)
        else:
            return


@contextmanager
def application(
    servers: str, folder: Path, manifest: Path = MANIFEST, environment: Mapping[str, str] = os.environ
) -> Iterator[WordCount]:
    """``streamsapp run`` as a process of its own, stopped in good order at the end."""
    app: WordCount | None = None
    try:
        with _interruption.after():
            app = WordCount(servers, folder, manifest, environment)
        yield app
    finally:
        if app is not None:
            app.stop()


class WordCount:
    """The running word count."""

    def __init__(self, servers: str, folder: Path, manifest: Path, environment: Mapping[str, str]) -> None:
        self._log = folder / "app.log"
        command = [str(STREAMSAPP), "--log-format", "text", "run", "-f", str(manifest), "--bootstrap-servers", servers]
        command += ["--state-dir", str(folder / "state"), "--http-port", "0"]
        with self._log.open("wb") as log:
            # A session of its own: Ctrl-C reaches the demo alone, which stops the application before the broker.
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def check(self) -> None:
        """Raises when the application has ended."""
        if self._process.poll() is not None:
            raise self.failed(f"ended with exit code {self._process.returncode}")

    def wait_for(self, pattern: str) -> str:
        """The first group of ``pattern`` in its log, as soon as it is there."""
        deadline = time.monotonic() + STALLED_SECONDS
        while (found := re.search(pattern, self._log.read_text("utf-8", errors="replace"))) is None:
            self.check()
            if time.monotonic() > deadline:
                raise self.failed(f"did not start within {STALLED_SECONDS:g} s")
            time.sleep(0.1)
        return found[1]

    def failed(self, what: str) -> StreamsError:
        last = self._log.read_text("utf-8", errors="replace").splitlines()[-20:]
        return StreamsError("\n".join([f"streamsapp run {what}; its last words:", *last]))

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class OutputTopic:
    """The topic ``counts`` as a consumer downstream sees it: committed updates only, the last one of a word wins."""

    def __init__(self, servers: str) -> None:
        settings = {"group.id": "demo", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer({**client(servers), **settings})
        self._consumer.assign([TopicPartition("counts", partition, 0) for partition in range(PARTITIONS)])
        self._last: dict[bytes, bytes] = {}
        self.updates = 0

    def read(self, timeout: float) -> bool:
        """Take in the records that have arrived; false when none did within ``timeout`` seconds."""
        messages = self._consumer.consume(10_000, timeout)
        for message in messages:
            if message.error():
                raise StreamsError(f"reading the topic counts failed: {message.error()}")
            key, value = message.key(), message.value()
            if key is None or value is None:
                raise StreamsError(f"an update without a word or a count at offset {message.offset()} of counts")
            self._last[key] = value
        self.updates += len(messages)
        return bool(messages)

    def read_rest(self) -> None:
        """Take in the remaining records once no program writes any more."""
        while self.read(QUIET_SECONDS):
            pass

    def close(self) -> None:
        self._consumer.close()

    def counts(self) -> dict[str, int]:
        return {word.decode(): int.from_bytes(count, "big", signed=True) for word, count in self._last.items()}


def follow(output: OutputTopic, app: WordCount, words: int) -> float:
    """Show progress until every word is counted; returns the seconds from the first update to the last."""
    progress = Progress(words)
    started = first = last = time.monotonic()
    while True:
        arrived = output.read(QUIET_SECONDS)
        now = time.monotonic()
        if arrived:
            first = first if first > started else now
            last = now
        progress.show(output.updates, now - first)
        if output.updates >= words and not arrived and sum(output.counts().values()) >= words:
            progress.finish()
            return last - first
        app.check()
        if now - last > STALLED_SECONDS:
            raise app.failed(f"made no progress for {STALLED_SECONDS:g} s at {output.updates:,} of {words:,} words")


def report(expected: Counter[str], counted: dict[str, int], lines: int, seconds: float) -> int:
    """Compare and report; the exit code."""
    different = [word for word in expected.keys() | counted.keys() if expected.get(word) != counted.get(word)]
    if different:
        print(f"{len(different):,} of {len(expected):,} words have a wrong count, for example:", file=sys.stderr)
        for word in sorted(different)[:10]:
            print(f"  {word!r}: {counted.get(word)} instead of {expected.get(word)}", file=sys.stderr)
        return 1
    words = expected.total()
    top = "  ".join(f"{word} {count:,}" for word, count in expected.most_common(8))
    print(
        f"\n{len(expected):,} different words in {lines:,} lines: every count equals an independent count of the files."
    )
    print(f"top words:   {top}")
    if seconds:  # few words may all come at once
        print(f"throughput:  {lines / seconds:,.0f} lines/s, {words / seconds:,.0f} words/s")
    print("next:        make test                             every check on a real broker")
    print("             examples/wordcount/wordcount.py       the topology that just ran")
    print("             .venv/bin/streamsapp describe -f examples/wordcount/streamsapp.yaml")
    return 0


if __name__ == "__main__":
    sys.exit(main(run))
