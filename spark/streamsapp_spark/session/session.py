"""The Spark session of a command. Runs on the driver's main thread."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from streamsapp.errors import ImmediateExit, ManifestError, StreamsError
from streamsapp.web.endpoint import bracketed_host
from streamsapp_spark.session.class_archive import ClassArchive, class_archive
from streamsapp_spark.session.end import STOP_SECONDS, SessionEnd
from streamsapp_spark.session.executor_versions import refuse_other_executors
from streamsapp_spark.session.java_process import JavaProcess, check_java, reason
from streamsapp_spark.session.master import bracketed_master, check_master, has_executors, is_local, is_standalone
from streamsapp_spark.session.settings import (
    BATCH_JAVA_OPTIONS,
    CLASS_PATH,
    JAVA_OPTIONS,
    OPTIONS,
    SETTINGS,
    TRIES,
)
from streamsapp_spark.session.spark_home import leave_out_archives

log = logging.getLogger(__name__)

#: Masters to which the number of tries is added.
_LOCAL = re.compile(r"local\[([0-9]+|\*)\]|local")

#: Settings that have a host: Spark ends with a failed assertion where an IPv6 address has no brackets.
_HOSTS = ("spark.driver.host", "spark.driver.bindAddress")

#: Spark's words, after a minute, for a master that did not let it in.
_GIVEN_UP = "Cannot call methods on a stopped SparkContext"


def start_java(name: str, master: str, settings: Sequence[str]) -> JavaProcess:
    """Check all that can be checked before Spark runs, and start its Java process. ``settings`` are ``key=value`` and
    win over ours. Raises ``ManifestError`` if one is not, or if there is no Java, ``StreamsError`` for a dead master.
    """
    own, home, master = dict(SETTINGS), None, bracketed_master(master)
    local = _LOCAL.fullmatch(master)
    conf = SparkConf(loadDefaults=False).setMaster(f"local[{local[1] or 1},{TRIES}]" if local else master)
    if local:
        own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if is_local(master):
        # Without it workers start whichever Python is first on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(master) or is_standalone(master):
        home = leave_out_archives()
    own |= _parsed(settings)
    own |= {name: bracketed_host(own[name]) for name in _HOSTS if name in own}
    check_master(master)
    check_java()
    archive = ClassArchive() if home is None else _archive(home, own)
    conf.setAppName(name).setAll(list(own.items()))
    if archive.options:
        conf.set(OPTIONS, f"{own[OPTIONS]} {archive.options}")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    return JavaProcess(conf, archive)


def _archive(home: Path, settings: Mapping[str, str]) -> ClassArchive:
    """An archive that ``engine: spark`` has recorded is good for every command."""
    if CLASS_PATH in settings or settings[OPTIONS] not in (JAVA_OPTIONS, BATCH_JAVA_OPTIONS):
        return ClassArchive()
    return class_archive(home, records=settings[OPTIONS] == BATCH_JAVA_OPTIONS)


@contextmanager
def session(java: JavaProcess) -> Iterator[SparkSession]:
    """A session that works, and ends with the block; ``StreamsError`` if there is none. On the main thread.
    ``KeyboardInterrupt`` after Ctrl-C, once Spark has stopped."""
    gateway, master = java.gateway(), java.conf.get("spark.master")
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        spark = SparkSession(SparkContext(conf=java.conf, gateway=gateway))
    except Exception as error:
        told = reason(error)
        if _GIVEN_UP in told:
            told = "no master of Spark's answers there, or one of another version; something else may have the address"
        raise StreamsError(f"Spark does not start with master {master}: {told}") from error
    # Spark's own handler calls Java in the middle of a call to Java, which fails, and hides that it was an interrupt.
    signal.signal(signal.SIGINT, on_interrupt)
    end, patience = SessionEnd(spark), STOP_SECONDS
    try:
        spark.sparkContext.setLogLevel("OFF")
        if has_executors(str(master)):
            _wait_for_executors(spark, str(master))
        java.show_output()
        yield spark
    except ImmediateExit:
        patience = 0.0
        raise
    except Exception:
        if end.interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        end.stop(patience)


def _wait_for_executors(spark: SparkSession, master: str) -> None:
    """Return when the cluster runs a task that needs what ours need. Raises ``ConfigError`` if an executor has other
    versions, ``StreamsError`` if it cannot run one for another reason."""
    log.info("waiting for an executor of %s", master)
    try:
        spark.sparkContext.parallelize([0], 1).map(_is_installed).collect()
    except Exception as error:
        refuse_other_executors(spark.sparkContext)
        raise StreamsError(
            f"executors of {master} cannot run the application's tasks: {reason(error)}; they need Python with "
            "streamsapp[spark], which PYSPARK_PYTHON names"
        ) from error


def _is_installed(_: int) -> bool:
    """Runs on an executor, which imports this module to do so."""
    return True


def _parsed(settings: Sequence[str]) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in settings]
    for key, separator, _ in pairs:
        if not separator:
            raise ManifestError([f"--conf: expected key=value, got {key!r}"])
    return {key: value for key, _, value in pairs}
