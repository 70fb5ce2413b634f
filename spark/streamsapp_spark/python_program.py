"""``bootstrap`` and ``run``: an application that is configured in Python, without a manifest, in the Spark session of
the user's own program.

Called on the driver, by that program. Topology and configuration go to executors pickled: functions and classes of the
program itself by their code, those of modules by name, so executors need these modules.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from streamsapp.config import StreamsConfig
from streamsapp.errors import ConfigError, ManifestError
from streamsapp.manifest.history_end import LATEST, until_fault, until_text
from streamsapp.manifest.model import SparkSpec
from streamsapp.manifest.sink_faults import sink_faults, unwritten_faults
from streamsapp.remote.object_store_factory import open_store
from streamsapp.structs import converted
from streamsapp.topology.async_calls import refuse_calls
from streamsapp.topology.builder import Topology
from streamsapp_spark.bootstrapping.driver import Bootstrap, BootstrapOptions
from streamsapp_spark.bootstrapping.outcome import Outcome
from streamsapp_spark.history.places import GivenTables
from streamsapp_spark.programs.shipped import PickledProgram, ShippedProgram
from streamsapp_spark.session.java_process import reason
from streamsapp_spark.session.settings import SQL_SETTINGS
from streamsapp_spark.streaming.engine import SparkEngine

#: As faults name what the command line has, and the same here.
_NAMES = {
    "--accept-missing-offsets": "accept_missing_offsets=True",
    "--from kafka": "from Kafka (history=None)",
    "--from": "history",
    "--until": "until",
    "spec.topology": "topology",
    "spec.spark.sinks": "sinks",
    "spec.": "",
}


def bootstrap(
    topology: Topology,
    config: StreamsConfig,
    history: Mapping[str, DataFrame] | None = None,
    *,
    until: Literal["latest"] | dict[str, dict[str | int, int]] = LATEST,
    emit: bool = False,
    accept_missing_offsets: bool = False,
    spark: SparkSession | None = None,
) -> Outcome:
    """Builds the state of all tasks from history, as ``streamsapp bootstrap`` does, and returns what was done.

    ``history`` has a DataFrame for each source topic, with the columns ``partition``, ``offset``, ``key``, ``value``
    (string or binary), ``timestamp`` (a timestamp, or milliseconds) and perhaps ``headers``; ``None``: the topics
    themselves. ``until``, ``emit`` and ``accept_missing_offsets`` are the command's options. ``spark`` is the session,
    which goes on; by default the active one, or a new one.

    Raises ``ConfigError`` or ``TopologyError`` for what cannot be bootstrapped, ``StreamsError`` if it fails: the same
    call goes on.
    """
    if spark is not None:
        _classic(spark)
    if config.remote_state is None:
        raise ConfigError("remote_state: is required, for that is where a bootstrap puts its state")
    if (fault := until_fault(until)) is not None:
        raise ConfigError(f"until: {fault}")
    if history is not None and not history:
        raise ConfigError("history: has no DataFrame; give one for each source topic, or leave it out to read Kafka")
    refuse_calls(topology)
    program = PickledProgram.of(topology.validate(), config)
    tables = None if history is None else GivenTables(dict(history))
    chosen = BootstrapOptions(until_text(until), emit, accept_missing_offsets)
    with _named_as_here():
        work = Bootstrap(program, topology, config, open_store(config.remote_state), tables, chosen)
        return work.run(_session(spark, program))


def run(
    topology: Topology,
    config: StreamsConfig,
    *,
    trigger: str = "1s",
    max_records_per_batch: int = 500_000,
    stop: threading.Event | None = None,
    sinks: Sequence[Mapping[str, Any]] = (),
    listeners: Sequence[StreamingQueryListener] = (),
    spark: SparkSession | None = None,
) -> None:
    """Runs the application as a Structured Streaming query, as ``streamsapp run`` does with ``engine: spark``, and
    returns when it has caught up (``trigger="availableNow"``), or in good order after ``stop`` was set.

    ``trigger``, ``max_records_per_batch`` (records) and ``sinks`` (documents, such as ``{"name": "lake", "topic":
    "counts", "format": "parquet", "path": "/lake/counts"}``) are those of ``spec.spark``; it is exactly once, whatever
    ``config.processing_guarantee`` says. ``spark`` is the session, which goes on; by default the active one, or a new
    one. The query has a session of its own beside it, so ``listeners`` hear of its batches and those of its sinks, and
    of nothing else.

    Raises ``ConfigError`` or ``TopologyError`` for what cannot be run, ``StreamsError`` if it fails.
    """
    if spark is not None:
        _classic(spark)
    try:
        chosen = {"trigger": trigger, "maxRecordsPerBatch": max_records_per_batch, "sinks": list(sinks)}
        setting = converted(chosen, SparkSpec)
    except msgspec.ValidationError as error:
        raise ConfigError(f"trigger, max_records_per_batch or sinks: {error}") from error
    for fault in (*sink_faults(setting.sinks, "sinks"), *unwritten_faults(setting.sinks, "sinks", topology)):
        raise ConfigError(fault)
    if config.scheduling:
        raise ConfigError("scheduling: Spark schedules the tasks of a batch itself; leave this out")
    refuse_calls(topology)
    config = replace(config, processing_guarantee="exactly_once")
    program = PickledProgram.of(topology.validate(), config)
    engine = SparkEngine(program, topology, config, setting)
    if stop is not None:
        threading.Thread(target=_closed_when, args=(stop, engine), name="stop", daemon=True).start()
    with _named_as_here():
        engine.run(_session(spark, program, listeners))


def _closed_when(stop: threading.Event, engine: SparkEngine) -> None:
    stop.wait()
    engine.close()


@contextmanager
def _session(
    spark: SparkSession | None, program: ShippedProgram, listeners: Sequence[StreamingQueryListener] = ()
) -> Iterator[SparkSession]:
    """A session beside the user's, on the same cluster, with settings of its own."""
    own = _classic(spark or SparkSession.builder.getOrCreate()).newSession()
    for key, value in SQL_SETTINGS.items():
        own.conf.set(key, value)
    try:
        own.sparkContext.parallelize([0], 1).map(partial(_loads, program)).collect()
    except Exception as error:
        raise ConfigError(
            f"executors cannot load the application: {reason(error)}; they need streamsapp[spark] in the Python that "
            "PYSPARK_PYTHON names, and modules of your own there, too, or by SparkContext.addPyFile()"
        ) from error
    for listener in listeners:  # it stays: the last event comes after the end
        own.streams.addListener(listener)
    yield own


def _classic(spark: SparkSession) -> SparkSession:
    if not isinstance(spark, SparkSession):  # that of Spark Connect is another class
        raise ConfigError(
            "spark: is a session of Spark Connect, and bootstrap and run need Spark's context, which it does not have; "
            "run the program where the driver runs, with SparkSession.builder.master(...)"
        )
    return spark


def _loads(program: ShippedProgram, _: int) -> None:
    """Runs on an executor."""
    program.load()


@contextmanager
def _named_as_here() -> Iterator[None]:
    try:
        yield
    except (ManifestError, ConfigError) as error:
        told = str(error)
        for name, here in _NAMES.items():
            told = told.replace(name, here)
        raise ConfigError(told) from error
