"""Lists the measured cases: every pair of workload and system, in every variant.

Read by ``run.py`` and ``report.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.nexmark.queries import NEXMARK
from benchmarks.workloads import RESTORES, STEADY, W1_JSON, W1_STRING, W2, W3, W4, Workload
from benchmarks.workloads_in_time import W5, W6, W7, W8, W9

PLAINTEXT, SASL_SSL = "plaintext", "sasl_ssl"
OWN, LIBRDKAFKA = "streamsapp", "librdkafka"


@dataclass(frozen=True)
class Case:
    """One row of the result.

    ``sampled``: on the sample, as the system is too slow for the whole. ``every_update``: must write one output record
    per update of a result. ``reference``: the variant of Kafka Streams that a row of ours is held against. ``quix``:
    that of Quix, where it has none of the same name. ``base``: the variant of the same system that a row is held
    against, with one instance instead of two, at least once instead of exactly once, without snapshots instead of with
    them. ``instances``: programs side by side, each with its half of the input. ``remote``: needs an object store.
    ``download``: the variant of ``raw-download`` that fetches the same files. ``over``: the kind of connection to the
    broker. ``client``: the one that moves records, ``streamsapp`` or ``librdkafka``.
    """

    group: str
    system: str
    variant: str
    workload: Workload
    reference: str | None = None
    base: str | None = None
    sampled: bool = False
    every_update: bool = False
    quix: str = "default"
    instances: int = 1
    remote: bool = False
    download: str | None = None
    over: str = PLAINTEXT
    client: str = OWN


def _restore_cases(size: str, workload: Workload) -> tuple[Case, ...]:
    replay, download = f"replay-{size}", f"download-{size}"
    return (
        Case("RESTORE", "kafka-streams", replay, workload),
        Case("RESTORE", "streamsapp", replay, workload, reference=replay),
        Case(
            "RESTORE",
            "streamsapp",
            f"snapshot-{size}",
            workload,
            reference=replay,
            base=replay,
            remote=True,
            download=download,
        ),
        Case("RESTORE", "raw-download", download, workload, remote=True),
    )


def _window_cases(kind: str, workload: Workload) -> tuple[Case, ...]:
    return (
        Case("W5", "kafka-streams", f"{kind}-cache-0", workload, every_update=True),
        Case("W5", "kafka-streams", f"{kind}-cache-10m", workload),
        Case("W5", "quix", f"{kind}-update", workload, sampled=True, every_update=True),
        Case("W5", "streamsapp", f"{kind}-update", workload, reference=f"{kind}-cache-0", every_update=True),
        Case("W5", "streamsapp", f"{kind}-commit", workload, reference=f"{kind}-cache-10m", quix=f"{kind}-update"),
    )


#: Sizes at which each of the systems takes half a minute or less. A key of state in Python costs milliseconds.
_ON_SPARK = {
    "w2": replace(W2, records=300_000, sample=1_250),
    "w3": replace(W3, records=2_000_000, sample=10_000),
    "w5": replace(W5["tumbling-1k"], records=2_000_000, sample=100_000),
}


def _spark_cases(name: str, workload: Workload) -> tuple[Case, ...]:
    return (
        Case("SPARK", "kafka-streams", f"eos-{name}-cache-0", workload, every_update=True),
        Case("SPARK", "streamsapp", f"eos-{name}", workload, reference=f"eos-{name}-cache-0", every_update=True),
        Case("SPARK", "engine-spark", f"1s-{name}", workload, every_update=True),
        Case("SPARK", "engine-spark", f"continuous-{name}", workload, every_update=True),
        Case("SPARK", "pyspark", f"sql-{name}", workload),
        Case("SPARK", "pyspark", f"python-{name}", workload, sampled=True),
    )


#: The queries that Quix can express, and the queries that are natural in Spark SQL.
_ON_QUIX = ("q1", "q2", "q12", "q18", "q19", "q20")
_ON_SPARK_SQL = ("q1", "q2", "q3", "q7")


def _nexmark_cases(name: str, workload: Workload) -> tuple[Case, ...]:
    ours, theirs = (Case("NEXMARK", system, name, workload) for system in ("streamsapp", "kafka-streams"))
    return (
        theirs,
        *((Case("NEXMARK", "quix", name, workload, sampled=True),) if name in _ON_QUIX else ()),
        replace(ours, reference=name, quix=name),
        replace(theirs, variant=f"eos-{name}", base=name),
        replace(ours, variant=f"eos-{name}", reference=f"eos-{name}", base=name, quix=name),
        *((Case("NEXMARK", "pyspark", f"sql-{name}", workload),) if name in _ON_SPARK_SQL else ()),
    )


CASES = (
    *(case for name, workload in NEXMARK.items() for case in _nexmark_cases(name, workload)),
    Case("W1", "kafka-streams", "string", W1_STRING),
    Case("W1", "quix", "string", W1_STRING, sampled=True),
    Case("W1", "streamsapp", "string", W1_STRING, reference="string"),
    Case("W1", "streamsapp", "string-scale", W1_STRING, base="string", instances=2),
    Case("W1", "kafka-streams", "json", W1_JSON),
    Case("W1", "quix", "json", W1_JSON, sampled=True),
    Case("W1", "streamsapp", "json", W1_JSON, reference="json"),
    Case("W2", "kafka-streams", "cache-0", W2, every_update=True),
    Case("W2", "kafka-streams", "cache-10m", W2),
    Case("W2", "quix", "default", W2, sampled=True, every_update=True),
    Case("W2", "streamsapp", "plain", W2, reference="cache-0", every_update=True),
    Case("W2", "streamsapp", "combine", W2, reference="cache-10m"),
    Case("W3", "kafka-streams", "cache-0", W3, every_update=True),
    Case("W3", "kafka-streams", "cache-10m", W3),
    Case("W3", "kafka-streams", "cache-512m", W3),
    Case("W3", "kafka-streams", "eos-cache-0", W3, base="cache-0", every_update=True),
    Case("W3", "kafka-streams", "eos-cache-10m", W3, base="cache-10m"),
    Case("W3", "quix", "default", W3, sampled=True, every_update=True),
    Case("W3", "streamsapp", "emit-update", W3, reference="cache-0", every_update=True),
    Case("W3", "streamsapp", "emit-commit", W3, reference="cache-512m"),
    Case("W3", "streamsapp", "eos-update", W3, reference="eos-cache-0", base="emit-update", every_update=True),
    Case("W3", "streamsapp", "eos-commit", W3, reference="eos-cache-10m", base="emit-commit"),
    Case("W3", "streamsapp", "emit-update-scale", W3, base="emit-update", every_update=True, instances=2),
    Case("W4", "kafka-streams", "default", W4),
    Case("W4", "quix", "default", W4, sampled=True),
    Case("W4", "streamsapp", "default", W4, reference="default"),
    *(case for kind, workload in W5.items() for case in _window_cases(kind, workload)),
    Case("W6", "kafka-streams", "default", W6),
    Case("W6", "quix", "default", W6, sampled=True),
    Case("W6", "streamsapp", "default", W6, reference="default"),
    Case("W7", "kafka-streams", "cache-0", W7),
    Case("W7", "kafka-streams", "cache-10m", W7),
    Case("W7", "quix", "default", W7, sampled=True),
    Case("W7", "streamsapp", "default", W7, reference="cache-10m"),
    Case("W8", "kafka-streams", "cache-0", W8, every_update=True),
    Case("W8", "kafka-streams", "cache-10m", W8),
    Case("W8", "streamsapp", "update", W8, reference="cache-0", every_update=True),
    Case("W8", "streamsapp", "commit", W8, reference="cache-10m"),
    Case("W9", "kafka-streams", "cache-0", W9),
    Case("W9", "kafka-streams", "cache-10m", W9),
    Case("W9", "streamsapp", "default", W9, reference="cache-0"),
    *(case for size, workload in RESTORES.items() for case in _restore_cases(size, workload)),
    *(case for name, workload in _ON_SPARK.items() for case in _spark_cases(name, workload)),
    Case("RESTORE", "streamsapp", "steady-off", STEADY, every_update=True),
    Case("RESTORE", "streamsapp", "steady-on", STEADY, base="steady-off", every_update=True, remote=True),
    Case("RESTORE", "streamsapp", "eos-steady-off", STEADY, every_update=True),
    Case("RESTORE", "streamsapp", "eos-steady-on", STEADY, base="eos-steady-off", every_update=True, remote=True),
)


def select(groups: set[str], systems: set[str], variants: set[str]) -> list[Case]:
    """The cases asked for; an empty set asks for all."""
    return [
        case
        for case in CASES
        if (not groups or case.group in groups)
        and (not systems or case.system in systems)
        and (not variants or case.variant in variants)
    ]


def connected(cases: Iterable[Case], over: Sequence[str], clients: Sequence[str]) -> list[Case]:
    """Each case over each kind of connection, ours by each client, in turn. Other systems than ours and Kafka Streams
    have plain connections only."""
    return [
        replace(case, over=kind, client=client)
        for case in cases
        for kind in over
        for client in (clients if case.system == "streamsapp" else (OWN,))
        if kind == PLAINTEXT or case.system in ("streamsapp", "kafka-streams")
    ]
