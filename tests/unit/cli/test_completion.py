"""Shells complete commands and options, and the command prints its version."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import streamsapp
from streamsapp.cli.completion import completed
from streamsapp.cli.main import main, make_parser
from streamsapp.native import compiled


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pro", ["produce"]),
        ("--ver", ["--version"]),
        ("consume --fo", ["--follow"]),
        ("describe --format mer", ["mermaid"]),
        ("topics -o j", ["json"]),
        ("--log-level debug run --sta", ["--state-dir"]),
        ("snapshots ver", ["verify"]),
        ("completion f", ["fish"]),
        ("validate -f ap", ["app.yaml"]),
    ],
)
def test_bash_completes(line: str, expected: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "app.yaml").touch()
    words = ["streamsapp", *line.split()]
    program = f"""{script("bash", capsys)}
COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}
_streamsapp
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    run = subprocess.run(["bash"], input=program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.split() == expected
    assert run.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    commands = list(completed(make_parser()))
    assert {each.name for each in commands} >= {"new", "produce", "consume", "topics", "local", "run"}
    for each in commands:
        for word in [each.name, *each.words]:
            shown = word.lstrip("-") if shell == "fish" else word
            assert re.search(rf"(?<![\w]){re.escape(shown)}(?![\w])", text), word


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_itself_reads_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    run = subprocess.run([shell, "-n"], input=script(shell, capsys), capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_version_tells_what_runs_beneath(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    lines = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["streamsapp"] == streamsapp.__version__ == importlib.metadata.version("streamsapp")
    assert lines["Python"].startswith(platform.python_version())
    for name in ("librdkafka", "RocksDB"):
        assert re.fullmatch(r"\d+\.\d+\.\d+", lines[name]), lines
    assert lines["clients:"] == "streamsapp, librdkafka (streamsapp unless client says otherwise)"
    assert lines["engine:"] == Path(compiled.__file__).name
