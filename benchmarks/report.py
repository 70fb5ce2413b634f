"""Results: medians, the table on the terminal, the JSON file.

Called by ``run.py`` once all runs are done; pure but for the file it writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TypeAlias

from benchmarks.cases import OWN, PLAINTEXT, Case
from benchmarks.measure import Measurement

#: Workload, system, variant, kind of connection, client.
_Name: TypeAlias = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Row:
    """Medians over the runs of one case, each figure by itself. Rates count records, in W2 words."""

    workload: str
    system: str
    variant: str
    records: int
    records_per_second: int
    records_per_cpu_second: int
    second_half_records_per_second: int | None
    second_half_records_per_cpu_second: int | None
    peak_rss_mb: int
    seconds: float
    cpu_seconds: float
    other_load: float
    bytes_per_second: int | None
    runs: int
    smoke: bool
    over: str = PLAINTEXT
    client: str = OWN


def summarise(case: Case, records: int, runs: list[Measurement], *, smoke: bool) -> Row:
    """The medians of a case's runs, all over the same number of records."""
    return Row(
        workload=case.group,
        system=case.system,
        variant=case.variant,
        records=records,
        records_per_second=round(median(records / run.seconds for run in runs)),
        records_per_cpu_second=round(median(records / run.cpu_seconds for run in runs)),
        second_half_records_per_second=_median(_rate(run.second_half_records, run.second_half_seconds) for run in runs),
        second_half_records_per_cpu_second=_median(
            _rate(run.second_half_records, run.second_half_cpu_seconds) for run in runs
        ),
        peak_rss_mb=round(median(run.peak_rss_mb for run in runs)),
        seconds=round(median(run.seconds for run in runs), 2),
        cpu_seconds=round(median(run.cpu_seconds for run in runs), 2),
        other_load=round(median(run.other_load for run in runs), 2),
        bytes_per_second=_median(run.bytes_per_second for run in runs),
        runs=len(runs),
        smoke=smoke,
        over=case.over,
        client=case.client,
    )


def write_json(rows: list[Row], path: Path) -> None:
    """Write the rows; a row that was measured again replaces its old one, the others stay."""
    measured = {_name(row) for row in rows}
    before = [Row(**each) for each in json.loads(path.read_text())] if path.exists() else []
    kept = [row for row in before if _name(row) not in measured]
    merged = [asdict(row) for row in sorted(kept + rows, key=lambda row: row.workload)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(merged, indent=2) + "\n")


_COLUMNS = (
    "workload",
    "system",
    "variant",
    "records",
    "rec/s",
    "rec/CPU-s",
    "2nd half/s",
    "2nd half/CPU-s",
    "RSS MB",
    "seconds",
    "other load",
    "MB/s",
    "x kafka-streams: /s",
    "/CPU-s",
    "2nd half/CPU-s",
    "x quix: /CPU-s",
    "x base: /s",
    "/CPU-s",
    "x download: bytes/s",
)
_TEXT_COLUMNS = 3
_LEGEND = (
    "Medians. x columns: ours divided by the peer's. x kafka-streams is against the variant in brackets; x base is two "
    "instances\nagainst one, exactly once against at least once, a snapshot against replaying, taking snapshots "
    "against none,\na secured connection against a plain one, or librdkafka against our own client.\n"
    "Quix runs on the first records of the same stream only (see records). The clock runs from the "
    "first record until all is flushed,\ncommitted and closed, in RESTORE from the start of the instance until all "
    "tasks run."
)


def table(rows: list[Row], cases: Iterable[Case]) -> str:
    """The rows as aligned text."""
    by_name = {(case.group, case.system, case.variant, case.over, case.client): case for case in cases}
    by_case = {_name(row): row for row in rows}
    lines = [list(_COLUMNS)]
    for row in rows:
        case = by_name[_name(row)]
        lines.append(_figures(row, case.reference) + _ratios(row, case, by_case))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = "\n".join(_aligned(line, widths) for line in lines)
    return f"{text}\n{_LEGEND}"


def _figures(row: Row, reference: str | None) -> list[str]:
    return [
        row.workload,
        row.system,
        _variant(row, reference),
        f"{row.records:,}",
        f"{row.records_per_second:,}",
        f"{row.records_per_cpu_second:,}",
        _whole(row.second_half_records_per_second),
        _whole(row.second_half_records_per_cpu_second),
        f"{row.peak_rss_mb:,}",
        f"{row.seconds:.1f}",
        f"{row.other_load:.0%}",
        _whole(row.bytes_per_second and row.bytes_per_second // 1_000_000),
    ]


def _name(row: Row) -> _Name:
    return row.workload, row.system, row.variant, row.over, row.client


def _variant(row: Row, reference: str | None) -> str:
    named = f"{row.variant} [{reference}]" if reference else row.variant
    named += f" over {row.over}" if row.over != PLAINTEXT else ""
    return named if row.client == OWN else f"{named} by {row.client}"


def _ratios(row: Row, case: Case, by_case: dict[_Name, Row]) -> list[str]:
    base = _base(row, case, by_case)
    jvm = by_case.get((row.workload, "kafka-streams", case.reference or "", row.over, OWN))
    raw = by_case.get((row.workload, "raw-download", case.download or "", PLAINTEXT, OWN))
    quix = _quix(row, case, by_case) if case.reference else None
    return [
        _ratio(row, jvm, "records_per_second"),
        _ratio(row, jvm, "records_per_cpu_second"),
        _ratio(row, jvm, "second_half_records_per_cpu_second"),
        _ratio(row, quix, "records_per_cpu_second"),
        _ratio(row, base, "records_per_second"),
        _ratio(row, base, "records_per_cpu_second"),
        _ratio(row, raw, "bytes_per_second"),
    ]


def _base(row: Row, case: Case, by_case: dict[_Name, Row]) -> Row | None:
    """The row of the same system with one thing less: another client, a secured connection, or what the case has."""
    if row.client != OWN:
        return by_case.get((row.workload, row.system, row.variant, row.over, OWN))
    if row.over != PLAINTEXT:
        return by_case.get((row.workload, row.system, row.variant, PLAINTEXT, OWN))
    return by_case.get((row.workload, row.system, case.base or "", PLAINTEXT, OWN))


def _quix(row: Row, case: Case, by_case: dict[_Name, Row]) -> Row | None:
    same, other = ((row.workload, "quix", variant, PLAINTEXT, OWN) for variant in (row.variant, case.quix))
    return by_case.get(same) or by_case.get(other)


def _ratio(row: Row, peer: Row | None, figure: str) -> str:
    if peer is None:
        return ""
    ours, theirs = getattr(row, figure), getattr(peer, figure)
    return f"{ours / theirs:.2f}" if ours and theirs else ""


def _aligned(line: list[str], widths: list[int]) -> str:
    cells = [
        cell.ljust(width) if number < _TEXT_COLUMNS else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _median(figures: Iterable[float | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return round(median(known)) if known else None


def _rate(records: int | None, seconds: float | None) -> float | None:
    return records / seconds if records and seconds else None


def _whole(figure: int | None) -> str:
    return "" if figure is None else f"{figure:,}"
