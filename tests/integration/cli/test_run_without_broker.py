"""``streamsapp run`` where no broker answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "wordcount" / "streamsapp.yaml"


def test_who_still_looks_for_a_broker_has_nothing_to_hand_over_and_ends_when_told_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streamsapp.cli.main", "run", "-f", str(EXAMPLE), "--http-port", "0"]
    options = ["--bootstrap-servers", "127.0.0.1:1", "--state-dir", str(tmp_path), "--shutdown-timeout", "200"]

    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        assert any("no broker answers" in line for line in started.stderr)
        started.terminate()
        started.communicate(timeout=60)

    assert started.returncode == 0
