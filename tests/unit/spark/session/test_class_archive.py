"""Java's classes are archived once for each Java and its jars, by one process, and an archive is read when whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from instances import eventually
from streamsapp_spark.session import class_archive
from streamsapp_spark.session.class_archive import archive_options, lasting_home
from streamsapp_spark.session.session import start_java
from streamsapp_spark.session.settings import BATCH_JAVA_OPTIONS, BATCH_SETTINGS

_PROGRAM = """
from streamsapp_spark.session.session import session, start_java
from streamsapp_spark.session.settings import BATCH_SETTINGS
settings = [f"{key}={value}" for key, value in BATCH_SETTINGS.items()] + ["spark.ui.enabled=false"]
java = start_java("archive", "local[1]", settings)
print(java.conf.get("spark.driver.extraJavaOptions"))
with session(java) as spark:
    machine = spark.sparkContext._jvm.java.lang.management.ManagementFactory
    print(machine.getClassLoadingMXBean().getTotalLoadedClassCount())
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in class_archive._CONDITIONS:
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


def test_a_home_is_the_same_until_java_or_a_jar_is_another(spark: Path, java: Path) -> None:
    first = home_of(spark, java)
    assert sorted(each.name for each in first.iterdir()) == ["bin", "jars"]
    assert home_of(spark, java) == first
    (spark / "jars" / "one.jar").write_bytes(b"12")
    second = home_of(spark, java)
    os.utime(java, (1, 1))
    third = home_of(spark, java)
    assert len({first, second, third}) == 3
    assert len(list(first.parent.iterdir())) == 3, "nothing else is left there"


def test_a_home_that_another_process_made_at_the_same_moment_is_used(
    spark: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(made: Path, installed: Path) -> None:
        """Fills the folder, and meanwhile another process is done."""
        monkeypatch.undo()
        monkeypatch.setenv("STREAMSAPP_CACHE", str(made.parent))
        class_archive.link_parts(made, installed)
        others.append(home_of(spark, java))

    others: list[Path] = []
    monkeypatch.setattr(class_archive, "link_parts", link)

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


def test_one_process_records_and_what_is_whole_is_read(spark: Path, java: Path) -> None:
    home = home_of(spark, java)
    recorded = home / "recorded.jsa"
    assert archive_options(home).startswith(f"-XX:ArchiveClassesAtExit={recorded} ")
    assert archive_options(home) == "", "somebody records"
    recorded.write_bytes(bytes(4_096))
    assert archive_options(home) == "", "it is being written"
    os.utime(recorded, (1, 1))
    assert archive_options(home).startswith("-XX:ArchiveClassesAtExit="), "whoever began has not come to its end"
    recorded.write_bytes(b"head" + bytes(4_092))
    assert archive_options(home).startswith(f"-XX:SharedArchiveFile={home / 'classes.jsa'} ")
    assert archive_options(home).startswith("-XX:SharedArchiveFile=")
    assert not recorded.exists()


@pytest.mark.parametrize(
    ("given", "archived"),
    [([], True), (["spark.driver.extraJavaOptions=-Xss8m"], False), (["spark.driver.extraClassPath=/more"], False)],
)
def test_only_java_as_the_engine_starts_it_has_an_archive(
    given: list[str], archived: bool, spark: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_of(spark, java)
    monkeypatch.setattr("streamsapp_spark.session.session.leave_out_archives", lambda: home)
    monkeypatch.setattr("streamsapp_spark.session.session.JavaProcess", lambda conf: conf)
    settings = [f"{key}={value}" for key, value in BATCH_SETTINGS.items()]
    options = start_java("archive", "local[1]", [*settings, *given]).get("spark.driver.extraJavaOptions")  # type: ignore[attr-defined]
    assert ("ArchiveClassesAtExit" in options, options.startswith(BATCH_JAVA_OPTIONS)) == (
        archived,
        "-Xss8m" not in options,
    )


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_one_driver_records_the_next_one_reads_and_a_damaged_one_is_refused(cache: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}

    def ran() -> str:
        command = [sys.executable, "-c", _PROGRAM]
        made = subprocess.run(command, env=kept, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        assert "archive" not in made.stderr, "Java tells nobody of its classes"
        options, classes = made.stdout.splitlines()
        assert int(classes) > 5_000
        return options

    assert "-XX:ArchiveClassesAtExit=" in ran()
    [home] = cache.iterdir()
    recorded = home / "recorded.jsa"
    eventually(
        lambda: class_archive._complete(recorded), "the archive, which Java writes after the driver's end", 300.0
    )
    assert "-XX:SharedArchiveFile=" in ran()
    archive = home / "classes.jsa"
    whole = archive.read_bytes()
    archive.unlink()
    archive.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    assert "-XX:SharedArchiveFile=" in ran()
    shutil.rmtree(home)
