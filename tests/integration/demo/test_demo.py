"""The demo, whole, over a few files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import demo
from instances import processes_that_name
from streamsapp.errors import StreamsError, UserInputError

ROOT = Path(__file__).resolve().parents[3]


def test_counts_every_word_of_the_given_files_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "one.py").write_text("A rose is a rose\n\nis a Rose.\n", encoding="utf-8")
    (tmp_path / "sub" / "two.py").write_bytes("Ünï_1 rose\r\n".encode() + b"\xff\n")
    (tmp_path / "notes.txt").write_text("rose", encoding="utf-8")

    answer = subprocess.run(
        [sys.executable, "tools/demo.py", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (answer.returncode, answer.stderr) == (0, "")
    assert "4 different words in 7 lines: every count equals an independent count" in answer.stdout
    assert "rose 4  a 3  is 2" in answer.stdout


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "streamsapp run"),
        pytest.param(signal.SIGTERM, "streamsapp run", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, "starting Apache Kafka", marks=pytest.mark.long),
        (signal.SIGTERM, "starting Apache Kafka"),
    ],
)
def test_a_signal_ends_every_process(number: signal.Signals, moment: str, tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "one.py").write_text("rose\n" * 200_000, encoding="utf-8")
    command = [sys.executable, "-u", "tools/demo.py", str(sources)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        while moment.encode() not in os.read(started.stdout.fileno(), 4096):
            assert started.poll() is None
        started.send_signal(number)
        _, errors = started.communicate(timeout=120)

    assert (started.returncode, errors) == (130, b"\nstopped\n")
    assert processes_that_name(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["sources"]


def test_an_application_that_ends_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "streamsapp"
    program.write_text("#!/bin/sh\necho no such topology\nexit 2\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(demo, "STREAMSAPP", program)
    (tmp_path / "one.py").write_text("rose", encoding="utf-8")

    with pytest.raises(StreamsError, match=r"ended with exit code 2; its last words:\nno such topology"):
        demo.run(tmp_path, tmp_path / "work")


def test_a_folder_without_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="holds no Python files with words to count"):
        demo.run(tmp_path, tmp_path / "work")


def test_a_wrong_count_fails_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.report(Counter(rose=4, a=3), {"rose": 4, "a": 2, "thorn": 1}, lines=2, seconds=1.0) == 1

    assert capsys.readouterr().err.splitlines() == [
        "2 of 2 words have a wrong count, for example:",
        "  'a': 2 instead of 3",
        "  'thorn': 1 instead of None",
    ]


def test_what_is_beside_a_standard_library_is_not_read(tmp_path: Path) -> None:
    for name in ("os.py", "site-packages/other.py", "test/test_os.py", "json/decoder.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name, encoding="utf-8")

    assert demo.read(tmp_path) == ["json/decoder.py", "os.py"]
