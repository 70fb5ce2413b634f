"""The native data path keeps to its memory: under sanitizers, over many records, and at the end of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamsapp import native
from streamsapp.cache_folder import CACHE_VARIABLE
from streamsapp.native import build

PROGRAM = Path(__file__).resolve().parents[2] / "support" / "native_stress.py"
SANITIZERS = ("libasan.so", "libubsan.so")

pytestmark = pytest.mark.long


def run(part: str, broker: str, **environment: str) -> str:
    """Returns what it printed; it must end well."""
    done = subprocess.run(
        [sys.executable, PROGRAM, part, broker],
        env={**os.environ, native.VARIABLE: "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    assert "done" in done.stdout
    return done.stdout + done.stderr


def sanitizer(name: str) -> str:
    found = subprocess.run(
        ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return found if Path(found).is_absolute() else pytest.skip(f"the compiler has no {name}")


def test_sanitizers_find_nothing(
    broker: str, compiled: native.DataPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preloaded = " ".join(map(sanitizer, SANITIZERS))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    build.library(["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"])

    told = run(
        "stress",
        broker,
        LD_PRELOAD=preloaded,
        PYTHONMALLOC="malloc",  # or memory that is free is not seen to be
        ASAN_OPTIONS="detect_leaks=0",  # Python leaves a lot at its end
    )

    assert "Sanitizer" not in told
    assert "runtime error" not in told


def test_no_memory_is_lost_over_many_records(broker: str, compiled: native.DataPath) -> None:
    run("leaks", broker)


def test_the_interpreter_ends_while_records_are_on_their_way(broker: str, compiled: native.DataPath) -> None:
    for _ in range(3):
        run("exit", broker)
