"""The CPU time that is reported for a file of tests includes that of the processes it starts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUSY = "import time; begin = time.process_time()\nwhile time.process_time() < begin + 0.5: pass"


def test_a_file_that_starts_a_busy_process_is_dearer_than_one_that_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_idle.py").write_text("def test_it():\n    pass\n", encoding="utf-8")
    busy = f"import subprocess, sys\ndef test_it():\n    subprocess.run([sys.executable, '-c', {BUSY!r}], check=True)\n"
    (tmp_path / "test_busy.py").write_text(busy, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "cpu_by_file",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
    ]
    environment = {"PYTHONPATH": str(ROOT / "tests" / "support")}
    answer = subprocess.run(
        [*command, str(tmp_path)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    told = re.findall(r"^ *([0-9.]+)  (test_\w+)\.py$", answer.stdout, re.MULTILINE)
    assert [name for _, name in told] == ["test_busy", "test_idle"]
    assert float(told[0][0]) >= 0.5
