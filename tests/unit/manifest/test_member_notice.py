"""The message that a container leaves for the case that it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsapp.manifest.member_notice import read_notice, write_notice


def test_members_are_read_back_as_they_were_written_last(tmp_path: Path) -> None:
    file = tmp_path / "termination-log"
    file.write_text("of another process, and longer than what follows" * 20)

    write_notice(["app-1-b", "app-1-a"], file)

    assert read_notice(file.read_text()) == ("app-1-a", "app-1-b")


def test_a_notice_that_is_taken_back_leaves_the_message_to_the_log(tmp_path: Path) -> None:
    file = tmp_path / "termination-log"
    file.touch()
    write_notice(["a"], file)
    assert file.read_text()

    write_notice([], file)

    assert file.read_text() == ""


def test_outside_of_kubernetes_no_file_is_made(tmp_path: Path) -> None:
    write_notice(["a"], tmp_path / "termination-log")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "message",
    [
        "",
        "spec.kafka: wrong",
        "[]",
        '{"members":"a"}',
        '{"members":[1]}',
        '{"members":[""]}',
        '{"members":["a"],"message":"a line of a log"}',
        '{"members":["' + "x" * 301 + '"]}',
        '{"members":[' + ",".join(['"a"'] * 257) + "]}",
        '{"members":["\ud800"]}',
        "[" * 100_000,
    ],
)
def test_any_other_message_names_no_members(message: str) -> None:
    assert read_notice(message) is None
