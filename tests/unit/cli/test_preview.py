"""The options of ``streamsapp preview`` are checked before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsapp.cli.main import main, make_parser


def test_a_duration_is_read_in_each_of_its_units() -> None:
    parse = make_parser().parse_args
    given = ["preview", "-f", "new.yaml", "--against", "app.yaml", "--last"]
    assert [parse([*given, text]).last for text in ("90s", "10m", "1h", "2d")] == [
        90_000,
        600_000,
        3_600_000,
        172_800_000,
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--last", "5"], "--last: expected a duration such as 90s, 10m, 1h or 2d, got '5'"),
        (["--records", "0"], "--records: expected a number of records, at least 1, got '0'"),
        (["--records", "5", "--last", "1h"], "not allowed with argument --records"),
    ],
)
def test_what_cannot_be_is_told_with_exit_2(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["preview", "-f", "new.yaml", "--against", "app.yaml", *options])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_the_manifest_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["preview", "-f", str(tmp_path / "new.yaml"), "--against", str(tmp_path / "app.yaml")])
    assert code == 2
    assert "new.yaml" in capsys.readouterr().err


def test_a_job_finds_why_it_failed_in_its_report(tmp_path: Path) -> None:
    report = tmp_path / "report"
    code = main(["preview", "-f", str(tmp_path / "a.yaml"), "--against", "b.yaml", "--report", str(report)])
    assert code == 2
    assert "cannot be read" in report.read_text("utf-8")
