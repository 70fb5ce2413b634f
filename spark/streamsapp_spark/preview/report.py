"""Prints what differs between two programs. Used on the driver's main thread."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import orjson
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import Row

from streamsapp_spark.preview.task import STATE
from streamsapp_spark.preview.text import ProgramText

#: The keys that text shows; JSON has all.
_SHOWN = 20
#: Limits of a summary: the bytes that Kubernetes keeps of a termination message, notes, and characters of a line.
_MAX_BYTES, _NOTES, _LINE = 4096, 5, 150


class PreviewReport:
    """The differences that were found."""

    def __init__(self, frame: DataFrame, texts: tuple[ProgramText, ProgramText]) -> None:
        self._frame = frame
        self._today, self._tomorrow = texts
        totals = frame.groupBy("kind", "name").agg(
            functions.count("*").alias("keys"), functions.count("first").alias("differ")
        )
        self._totals: list[Row] = sorted(totals.collect(), key=lambda row: (row["kind"], row["name"]))
        self.differences: int = sum(row["differ"] for row in self._totals)

    def print_text(self, application_id: str, records: int, notes: Sequence[str]) -> None:
        for line in self._first:
            print(line)
        if self.differences > _SHOWN:
            print(f"... and {self.differences - _SHOWN:,} more; -o json names all")
        for note in notes:
            print(f"note: {note}")
        for row in self._totals:
            kind = "store" if row["kind"] == STATE else "results in"
            verb = "changed" if row["kind"] == STATE else "have results"
            print(f"{kind} {row['name']}: {row['differ']:,} of {row['keys']:,} keys differ that {verb}")
        verdict = f"{self.differences:,} keys differ" if self.differences else "nothing differs"
        print(f"{application_id}: {verdict} after {records:,} offsets of input")

    @cached_property
    def _first(self) -> list[str]:
        lines = []
        for row in self._differing(_SHOWN):
            where = f"{'store' if row['kind'] == STATE else 'results in'} {row['name']}"
            more = f" ({row['differ']} differ, the first is its number {row['first']['nth']})" * (row["differ"] > 1)
            key, today, tomorrow = self._shown(row)
            lines.append(f"{where}, key {key}: today {today}, tomorrow {tomorrow}{more}")
        return lines

    def summary(self, records: int, notes: Sequence[str]) -> bytes:
        """Returns the text that the operator reads: JSON that is no longer than a termination message may be."""
        first = [_cut(line) for line in self._first]
        figures = {
            "records": records,
            "keys": sum(row["keys"] for row in self._totals),
            "differences": self.differences,
            "notes": [_cut(note) for note in notes[:_NOTES]],
        }
        while len(text := orjson.dumps(figures | {"first": first})) > _MAX_BYTES:
            first.pop()
        return text

    def print_json(self, records: int, notes: Sequence[str]) -> None:
        """Prints one object per line: every key that differs, then a summary."""
        for row in self._differing(None):
            key, today, tomorrow = self._shown(row)
            kind = "state" if row["kind"] == STATE else "result"
            values = {"key": key, "today": today, "tomorrow": tomorrow, "count": row["differ"]}
            _print_json({"type": "difference", "of": kind, "name": row["name"], **values})
        totals: dict[str, dict[str, dict[str, int]]] = {"results": {}, "state": {}}
        for row in self._totals:
            counts = {"keys": row["keys"], "differ": row["differ"]}
            totals["state" if row["kind"] == STATE else "results"][row["name"]] = counts
        summary = {"records": records, "differences": self.differences, **totals, "notes": notes}
        _print_json({"type": "summary", **summary})

    def _differing(self, limit: int | None) -> Iterator[Row]:
        found = self._frame.filter("differ > 0").orderBy("kind", "name", "key")
        return iter(found.toLocalIterator() if limit is None else found.limit(limit).collect())

    def _shown(self, row: Row) -> tuple[str, str, str]:
        kind, name, first = row["kind"], row["name"], row["first"]
        of_key = self._today if self._today.knows(kind, name) else self._tomorrow
        today, tomorrow = (
            text.value(kind, name, side)
            for text, side in ((self._today, first["today"]), (self._tomorrow, first["tomorrow"]))
        )
        return of_key.key(kind, name, None if row["key"] is None else bytes(row["key"])), today, tomorrow


def _cut(line: str) -> str:
    return line if len(line) <= _LINE else f"{line[: _LINE - 3]}..."


def _print_json(data: Any) -> None:
    sys.stdout.write(orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE).decode())
