"""The settings that the broker of this machine is given, as Java reads them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamsapp.errors import UserInputError
from streamsapp.local import broker
from streamsapp.local.broker import EmbeddedBroker


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("größe", r"gr\u00f6\u00dfe"),
        ("a\\b", r"a\\b"),
        ("𝄞", r"\ud834\udd1e"),
        ("a\nb", r"a\u000ab"),
        ("a b=c", "a b=c"),
    ],
)
def test_a_path_is_written_so_that_java_reads_it(tmp_path: Path, name: str, written: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    settings = EmbeddedBroker(folder)._write_settings()
    lines = settings.read_text("ascii").splitlines()
    assert f"log.dirs={tmp_path}/{written}/logs" in lines


def test_a_broker_stays_registered_while_it_stands_still_unless_it_waits_for_an_old_registration_to_expire(
    tmp_path: Path,
) -> None:
    def session() -> list[str]:
        lines = EmbeddedBroker(tmp_path)._write_settings().read_text("ascii").splitlines()
        return [line.removeprefix("broker.session.timeout.ms=") for line in lines if "broker.session" in line]

    assert session() == ["60000"]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").touch()
    assert session() == ["2000"]


@pytest.mark.parametrize("name", ["a,b", os.fsdecode(b"\xff")])
def test_a_path_that_kafka_cannot_be_told_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(broker, "find_java", lambda: pytest.fail("it is refused first"))
    with pytest.raises(UserInputError, match=r"name another.*--data-dir"):
        EmbeddedBroker(tmp_path / name).start()
    assert not list(tmp_path.iterdir())
