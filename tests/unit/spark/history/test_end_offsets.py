"""The end of history as the command line names it, where it is wrong."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamsapp.errors import ManifestError
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp_spark.history.completeness import adaptive, collected
from streamsapp_spark.history.end_offsets import refuse_other


def fault(until: str) -> str:
    with pytest.raises(ManifestError) as raised:
        refuse_other([HistoryRange("t", 0, 0, 5)], until, "yesterday")
    (line,) = raised.value.faults
    return line


def test_a_partition_with_more_digits_than_python_reads_is_told() -> None:
    assert fault(f'{{"t": {{"{"9" * 5000}": 1}}}}').startswith("--until: '999")
    assert fault('{"t": {"²": 1}}').endswith("of topic t is not a partition; partitions are numbers")


def test_a_file_of_offsets_that_is_no_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_bytes(b'{"\xff": {"0": 1}}')
    assert fault(str(file)).startswith("--until: expected 'latest' or a file such as")


def test_a_name_that_no_file_has_is_told() -> None:
    assert fault("a\0b").startswith("--until: expected 'latest' or a file such as")


def test_a_table_that_cannot_be_read_is_told_with_the_reason() -> None:
    class Damaged:
        def collect(self) -> None:
            raise RuntimeError("org.apache.spark.SparkException: part-0.parquet is not a Parquet file")

    with pytest.raises(ManifestError) as raised:
        collected(Damaged())  # type: ignore[arg-type]
    (line,) = raised.value.faults
    assert line.startswith("--from: the history cannot be read: org.apache.spark.SparkException: part-0.parquet is not")


def test_a_session_gets_its_own_setting_back_once_history_was_counted_or_cannot_be() -> None:
    class Settings(dict[str, str]):
        set = dict.__setitem__

    session = SimpleNamespace(conf=Settings({"spark.sql.adaptive.enabled": "false"}))
    with suppress(ManifestError), adaptive(session):  # type: ignore[arg-type]
        assert session.conf == {"spark.sql.adaptive.enabled": "true"}
        raise ManifestError(["--from: the history cannot be read"])
    assert session.conf == {"spark.sql.adaptive.enabled": "false"}
