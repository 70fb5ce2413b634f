"""The picture of the benchmarks says what their results say."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

from benchmarks.cases import select
from benchmarks.picture import PICTURE, RESULTS, Ratio, drawn, ratios


def row(system: str, variant: str, whole: int, second_half: int | None, *, smoke: bool = False) -> dict[str, Any]:
    return {
        "workload": "W3",
        "system": system,
        "variant": variant,
        "records_per_cpu_second": whole,
        "second_half_records_per_cpu_second": second_half,
        "smoke": smoke,
    }


def test_a_row_is_held_against_its_own_variant_of_kafka_streams() -> None:
    rows = [
        row("streamsapp", "emit-update", 300, 360),
        row("streamsapp", "emit-commit", 400, None),
        row("kafka-streams", "cache-0", 100, 240),
        row("kafka-streams", "cache-512m", 200, 100),
        row("kafka-streams", "cache-10m", 1, 1),
        row("streamsapp", "eos-update", 1, 1, smoke=True),
        row("kafka-streams", "eos-cache-0", 1, 1),
    ]
    assert ratios(rows, select({"W3"}, set(), set())) == [
        Ratio("W3 count per key", "emit-update : cache-0", 3.0, 1.5),
        Ratio("W3 count per key", "emit-commit : cache-512m", 2.0, 4.0),
    ]


def test_what_is_less_is_drawn_to_the_left() -> None:
    picture = ET.fromstring(  # noqa: S314 - it is our own
        drawn([Ratio("more & more", "", 2.0, None), Ratio("less", "", 0.5, 0.25)])
    )
    bars = [each.attrib for each in picture.iter("{http://www.w3.org/2000/svg}rect")][2:]
    (more, less, much_less), even = (bars[0], bars[2], bars[1]), int(bars[0]["x"])
    assert int(less["x"]) + int(less["width"]) == int(much_less["x"]) + int(much_less["width"]) == even
    assert [round(int(each["width"]) / 10) for each in (more, less, much_less)] == [7, 7, 14]
    assert "more & more" in [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_is_that_of_the_latest_results() -> None:
    assert PICTURE.read_text("utf-8") == drawn(ratios(json.loads(RESULTS.read_text("utf-8"))))
