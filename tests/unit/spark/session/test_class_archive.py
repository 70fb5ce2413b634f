"""Java's classes are archived once for each Java and its jars, by one process, and an archive is read when whole."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from pyspark import SparkConf

from cluster.images import ROOT
from instances import eventually
from streamsapp_spark.session import class_archive as module
from streamsapp_spark.session.class_archive import ClassArchive, class_archive, lasting_home
from streamsapp_spark.session.session import start_java
from streamsapp_spark.session.settings import BATCH_JAVA_OPTIONS, BATCH_SETTINGS, JAVA_OPTIONS

_PROGRAM = """
import sys
from streamsapp_spark.session.session import session, start_java
from streamsapp_spark.session.settings import BATCH_SETTINGS
settings = [f"{key}={value}" for key, value in BATCH_SETTINGS.items()] + ["spark.ui.enabled=false"]
java = start_java("archive", "local[1]", settings)
print(java.conf.get("spark.driver.extraJavaOptions"))
with session(java) as spark:
    process = java.gateway().proc.pid
    java.ran()
    print(process, "/classes-" in open(f"/proc/{process}/maps").read(), flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in module._CONDITIONS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STREAMSAPP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """An installed Spark, as far as it is looked at."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "one.jar").write_bytes(b"1")
    (tmp_path / "spark" / "bin").mkdir()
    return tmp_path / "spark"


@pytest.fixture
def java(tmp_path: Path) -> Path:
    (tmp_path / "java").touch()
    return tmp_path / "java"


def home_of(spark: Path, java: Path) -> Path:
    home = lasting_home(spark, java)
    assert home is not None
    return home


def recorded_by(home: Path) -> Path:
    """Takes the right to record; returns the file that Java is to write. The process that inherits the lock is gone."""
    found = class_archive(home, records=True)
    assert found.lock is not None
    os.close(found.lock)
    return recorded_in(found)


def recorded_in(found: ClassArchive) -> Path:
    name = re.fullmatch(r"-XX:ArchiveClassesAtExit=(\S+) .*", found.options)
    assert name is not None
    return Path(name[1])


def archived(home: Path) -> Path:
    """Returns the archive of the home, which there now is."""
    found = class_archive(home, records=True)
    name = re.fullmatch(r"-XX:SharedArchiveFile=(\S+) .*", found.options)
    assert (name is not None, found.lock) == (True, None)
    assert name is not None
    return Path(name[1])


def test_a_home_is_one_for_each_java_and_each_spark(spark: Path, java: Path, tmp_path: Path) -> None:
    first = home_of(spark, java)
    assert sorted(each.name for each in first.iterdir()) == ["bin", "jars", "java"]
    assert home_of(spark, java) == first
    (spark / "jars" / "one.jar").write_bytes(b"12")
    assert home_of(spark, java) == first
    (tmp_path / "another").touch()
    shutil.copytree(spark, tmp_path / "newer")
    assert len({first, home_of(spark, tmp_path / "another"), home_of(tmp_path / "newer", java)}) == 3
    assert len(list(first.parent.iterdir())) == 3, "nothing else is left there"


def test_homes_whose_spark_or_java_is_gone_go_when_a_new_one_comes(spark: Path, java: Path, tmp_path: Path) -> None:
    stays = home_of(spark, java)
    (tmp_path / "another").touch()
    shutil.copytree(spark, tmp_path / "older")
    of_older, of_another = home_of(tmp_path / "older", java), home_of(spark, tmp_path / "another")
    (of_older / "classes-1").touch()
    other = [stays.parent / name for name in ("spark-notes", "kafka")]
    for folder in other:
        folder.mkdir()
        (folder / "jars").symlink_to(tmp_path / "nothing")
    shutil.rmtree(tmp_path / "older")
    (tmp_path / "another").unlink()
    assert home_of(spark, java) == stays
    assert of_older.exists(), "only a new home is a reason to look"
    (tmp_path / "third").touch()
    new = home_of(spark, tmp_path / "third")
    assert set(stays.parent.iterdir()) == {stays, new, *other}
    assert not of_another.exists()
    assert (spark / "jars" / "one.jar").exists()


def test_a_home_that_another_process_made_at_the_same_moment_is_used(
    spark: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(made: Path, installed: Path) -> None:
        """Fills the folder, and meanwhile another process is done."""
        monkeypatch.undo()
        monkeypatch.setenv("STREAMSAPP_CACHE", str(made.parent))
        module.link_parts(made, installed)
        others.append(home_of(spark, java))

    others: list[Path] = []
    monkeypatch.setattr(module, "link_parts", link)

    assert home_of(spark, java) == others[0]
    assert list(others[0].parent.iterdir()) == others, "nothing else is left there"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda spark, cache, patch: patch.setenv("SPARK_DIST_CLASSPATH", "/more/classes"),
        lambda spark, cache, patch: (spark / "conf").mkdir(),
        lambda spark, cache, patch: cache.touch(),
        lambda spark, cache, patch: patch.setenv("STREAMSAPP_CACHE", str(cache / "two words")),
    ],
    ids=["more classes", "a configuration", "no folder", "a path with a space"],
)
def test_there_is_none_where_java_would_refuse_or_nothing_can_be_kept(
    spoil: Callable[[Path, Path, pytest.MonkeyPatch], None],
    spark: Path,
    java: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoil(spark, cache, monkeypatch)
    assert lasting_home(spark, java) is None


def test_a_folder_that_others_may_write_to_is_not_used(spark: Path, java: Path) -> None:
    home_of(spark, java).chmod(0o777)
    assert lasting_home(spark, java) is None


def test_what_one_process_recorded_whole_is_read(spark: Path, java: Path) -> None:
    home = home_of(spark, java)
    found = class_archive(home, records=True)
    recorded = recorded_in(found)
    assert class_archive(home, records=True) == ClassArchive(), "another process records"
    found.keep()
    recorded.write_bytes(bytes(4_096))
    assert class_archive(home, records=True) == ClassArchive(), "it is being written"
    recorded.write_bytes(b"head" + bytes(4_092))
    assert class_archive(home, records=True) == ClassArchive(), "the process has not come to its end"
    assert found.lock is not None
    os.close(found.lock)
    archive = archived(home)
    assert archive.read_bytes() == b"head" + bytes(4_092)
    assert archived(home) == archive
    assert sorted(each.name for each in home.iterdir()) == ["bin", archive.name, "jars", "java", "recording.lock"]


def test_the_next_process_records_where_one_was_killed(spark: Path, java: Path) -> None:
    home = home_of(spark, java)
    found = class_archive(home, records=True)
    assert found.lock is not None
    with subprocess.Popen(["sleep", "600"], pass_fds=[found.lock]) as process:
        os.close(found.lock)
        found.keep()
        recorded_in(found).write_bytes(bytes(4_096))
        assert class_archive(home, records=True) == ClassArchive(), "it records"
        process.kill()
    recorded = recorded_by(home)
    assert recorded == recorded_in(found)
    recorded.write_bytes(b"head")
    assert recorded_by(home) == recorded, "no query ran in that process"


def test_a_new_jar_or_java_has_an_archive_of_its_own_that_replaces_the_other(spark: Path, java: Path) -> None:
    home, archives = home_of(spark, java), []
    for change in (
        lambda: None,
        lambda: (spark / "jars" / "one.jar").write_bytes(b"12"),
        lambda: os.utime(java, (1, 1)),
    ):
        change()
        found = class_archive(home, records=True)
        assert found.lock is not None
        os.close(found.lock)
        found.keep()
        recorded_in(found).write_bytes(b"head")
        archives.append(archived(home))
        assert list(home.glob("*-*")) == archives[-1:]
    assert len(set(archives)) == 3


def test_a_command_that_records_nothing_reads_what_another_recorded(spark: Path, java: Path) -> None:
    home = home_of(spark, java)
    assert class_archive(home, records=False) == ClassArchive()
    found = class_archive(home, records=True)
    assert found.lock is not None
    os.close(found.lock)
    found.keep()
    recorded_in(found).write_bytes(b"head")
    assert class_archive(home, records=False).options.startswith("-XX:SharedArchiveFile=")


def test_nothing_is_recorded_where_the_home_cannot_be_written_to(spark: Path, java: Path) -> None:
    home = home_of(spark, java)
    (home / "recording.lock").mkdir()  # as good as a file that may not be opened, also for root
    assert class_archive(home, records=True) == ClassArchive()


@pytest.mark.parametrize("master", ["local[1]", "local-cluster[1,1,512]", "spark://127.0.0.1:7077"])
@pytest.mark.parametrize(
    ("given", "recorded", "read"),
    [
        ([f"{key}={value}" for key, value in BATCH_SETTINGS.items()], True, True),
        ([], False, True),
        (["spark.driver.extraJavaOptions=-Xss8m"], False, False),
        (["spark.driver.extraClassPath=/more"], False, False),
    ],
)
def test_java_as_the_engine_starts_it_records_and_java_as_others_start_it_reads(
    master: str, given: list[str], recorded: bool, read: bool, spark: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_of(spark, java)
    monkeypatch.setattr("streamsapp_spark.session.session.leave_out_archives", lambda: home)
    monkeypatch.setattr("streamsapp_spark.session.session.check_master", lambda master: None)
    monkeypatch.setattr("streamsapp_spark.session.session.JavaProcess", lambda conf, archive: (conf, archive))

    def started() -> tuple[str, ClassArchive]:
        conf, archive = cast(tuple[SparkConf, ClassArchive], start_java("archive", master, given))
        if archive.lock is not None:
            os.close(archive.lock)
        return str(conf.get("spark.driver.extraJavaOptions")), archive

    options, archive = started()
    assert (archive.lock is not None, "ArchiveClassesAtExit" in options) == (recorded, recorded)
    kept = class_archive(home, records=True)
    kept.keep()
    recorded_in(kept).write_bytes(b"head")
    assert kept.lock is not None
    os.close(kept.lock)
    options, archive = started()
    assert (archive.lock, "SharedArchiveFile" in options) == (None, read)
    assert options.startswith((BATCH_JAVA_OPTIONS, JAVA_OPTIONS, "-Xss8m"))


def test_an_image_records_with_exactly_the_modules_that_it_needs(tmp_path: Path) -> None:
    dockerfile = (ROOT / "images/spark.Dockerfile").read_text("utf-8").replace("\\\n", "")
    for sources, target in re.findall(r"^COPY (.+) /build/(streamsapp\S*)$", dockerfile, re.MULTILINE):
        for source in sources.split():
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tmp_path / target)
            else:
                (tmp_path / target).mkdir(exist_ok=True)
                shutil.copy(ROOT / source, tmp_path / target)
    program = (
        "import sys, streamsapp_spark.session.class_recording\n"
        "print(*(each.__file__ for name, each in sys.modules.items() if name.startswith('streamsapp')))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    made = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    files = {Path(each) for each in made.stdout.split()}
    assert files, made
    assert all(each.is_relative_to(tmp_path) for each in files)
    single = set(tmp_path.glob("*/*.py"))
    assert single <= files, "each file that is named is needed"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_one_driver_records_the_next_one_reads_and_a_damaged_one_is_refused(cache: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}

    def ran(killed: bool = False) -> tuple[str, bool]:
        """Returns the options of Java, and whether it used the archive."""
        pipe, command = subprocess.PIPE, [sys.executable, "-c", _PROGRAM]
        with subprocess.Popen(command, env=kept, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            options = process.stdout.readline()
            number, _, used = process.stdout.readline().partition(" ")
            if killed:
                os.kill(int(number), signal.SIGKILL)
                process.kill()
            _, said = process.communicate()
        assert killed or process.returncode == 0, said
        assert "archive" not in said, "Java does not report its classes"
        return options, used.strip() == "True"

    options, used = ran(killed=True)
    assert "-XX:ArchiveClassesAtExit=" in options
    options, used = ran()
    assert ("-XX:ArchiveClassesAtExit=" in options, used) == (True, False), "that one was killed"
    [home] = cache.iterdir()

    def is_there() -> bool:
        return "-XX:SharedArchiveFile=" in class_archive(home, records=False).options

    eventually(is_there, "the archive, which Java writes after the driver's end", 300.0)
    options, used = ran()
    assert ("-XX:SharedArchiveFile=" in options, used) == (True, True)
    [archive] = home.glob("classes-*")
    whole = archive.read_bytes()
    archive.unlink()
    archive.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    options, used = ran()
    assert ("-XX:SharedArchiveFile=" in options, used) == (True, False)
    shutil.rmtree(home)
