"""Draws how many times Kafka Streams' records per CPU-second each workload does: ``python -m benchmarks.picture``.

Reads ``results/latest.json`` and writes ``docs/assets/ratios.svg``, which README and the page about benchmarks show.
Drawing is pure; a test holds the picture against the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import log2
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from benchmarks.cases import CASES, Case

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "latest.json"
PICTURE = ROOT / "docs" / "assets" / "ratios.svg"

#: The work of each group, in a few words.
_WORK = {
    "W1": "stateless",
    "W2": "word count",
    "W3": "count per key",
    "W4": "restore a store",
    "W5": "windowed count",
    "W6": "stream-stream join",
    "W7": "stream-table join",
    "W8": "sessions",
    "W9": "foreign-key join",
}
_WIDTH, _LABELS, _ROW, _BAR, _TOP, _BOTTOM = 820, 300, 34, 11, 58, 34
#: The axis is logarithmic: as far to twice as much as to half of it.
_LEAST, _MOST = 0.25, 32.0
_STYLE = """
text{font:13px system-ui,sans-serif;fill:#1f2328}.small{font-size:11px;fill:#59636e}
.steady{fill:#0969da}.whole{fill:#a8c7ee}.behind{fill:#bf8700}.line{stroke:#d1d9e0}.even{stroke:#1f2328}
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}.whole{fill:#1f4a7d}.line{stroke:#3d444d}
.even{stroke:#f0f6fc}}
"""


class Ratio(NamedTuple):
    """Ours divided by Kafka Streams', records per CPU-second.

    ``steady``: once the JVM is warm, its second half; ours too where it is known, else our whole run, which has no
    compiler to wait for. ``None`` where the second half of Kafka Streams is not known.
    """

    work: str
    variants: str
    whole: float
    steady: float | None


def ratios(rows: Iterable[Mapping[str, Any]], cases: Sequence[Case] = CASES) -> list[Ratio]:
    """The workloads that were run on both sides, in the order of ``cases``. Restoring is in seconds, elsewhere."""
    measured = {(row["workload"], row["system"], row["variant"]): row for row in rows if not row["smoke"]}
    found = []
    for case in cases:
        ours = measured.get((case.group, case.system, case.variant))
        peers = measured.get((case.group, "kafka-streams", case.reference or ""))
        if case.system == "streamsapp" and case.group in _WORK and ours and peers:
            whole = ours["records_per_cpu_second"] / peers["records_per_cpu_second"]
            warm = peers["second_half_records_per_cpu_second"]
            second_half = ours["second_half_records_per_cpu_second"] or ours["records_per_cpu_second"]
            work, variants = f"{case.group} {_WORK[case.group]}", f"{case.variant} : {case.reference}"
            found.append(Ratio(work, variants, whole, second_half / warm if warm else None))
    return found


def drawn(found: Sequence[Ratio]) -> str:
    """The picture as SVG."""
    height = _TOP + _ROW * len(found) + _BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>Records per CPU-second, streamsapp divided by Kafka Streams</title>",
        f"<style>{_STYLE}</style>",
        '<text x="8" y="20">Records per CPU-second, times those of Kafka Streams in the same run</text>',
        f'<rect class="steady" x="{_LABELS}" y="30" width="14" height="9"/>',
        f'<text class="small" x="{_LABELS + 20}" y="39">once its JVM is warm</text>',
        f'<rect class="whole" x="{_LABELS + 160}" y="30" width="14" height="9"/>',
        f'<text class="small" x="{_LABELS + 180}" y="39">the whole run</text>',
    ]
    for mark in (0.25, 0.5, 1, 2, 4, 8, 16, 32):
        x, kind = _x(mark), "even" if mark == 1 else "line"
        lines.append(f'<line class="{kind}" x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{height - _BOTTOM + 4}"/>')
        lines.append(f'<text class="small" x="{x}" y="{height - 12}" text-anchor="middle">{mark:g}</text>')
    for number, ratio in enumerate(found):
        lines += _row(ratio, _TOP + _ROW * number)
    return "\n".join([*lines, "</svg>", ""])


def _row(ratio: Ratio, top: int) -> list[str]:
    steady = [] if ratio.steady is None else _bar(ratio.steady, "steady", top)
    at = f'x="{_LABELS - 12}" text-anchor="end"'
    work = f'<text {at} y="{top + 10}">{escape(ratio.work)}</text>'
    variants = f'<text class="small" {at} y="{top + 23}">{escape(ratio.variants)}</text>'
    return [work, variants, *steady, *_bar(ratio.whole, "whole", top + _BAR + 1)]


def _bar(value: float, kind: str, y: int) -> list[str]:
    """From one, to the right if it is more and to the left if it is less."""
    begin, end = sorted((_x(1), _x(value)))
    shade = "behind" if kind == "steady" and value < 1 else kind
    return [
        f'<rect class="{shade}" x="{begin}" y="{y}" width="{max(1, end - begin)}" height="{_BAR}"/>',
        f'<text class="small" x="{max(end, _x(1)) + 5}" y="{y + 10}">{value:.2g}</text>',
    ]


def _x(value: float) -> int:
    share = (log2(min(max(value, _LEAST), _MOST)) - log2(_LEAST)) / (log2(_MOST) - log2(_LEAST))
    return round(_LABELS + share * (_WIDTH - _LABELS - 40))


def main() -> None:
    PICTURE.write_text(drawn(ratios(json.loads(RESULTS.read_text("utf-8")))), encoding="utf-8")
    print(f"written: {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
