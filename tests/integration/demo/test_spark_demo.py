"""The demo of the query on Spark, whole, over a few files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.timeout(600)  # longer than Spark's first result takes on a busy machine, and its end
@pytest.mark.long
def test_the_query_counts_every_word_and_its_pages_are_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("A rose is a rose\n\nis a Rose.\n", encoding="utf-8")
    (tmp_path / "two.py").write_text("rose is\n", encoding="utf-8")

    answer = subprocess.run(
        [sys.executable, "tools/spark_demo.py", str(tmp_path)],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (answer.returncode, answer.stderr) == (0, "")
    assert "3 different words in 6 lines: every count equals an independent count" in answer.stdout
    assert "rose 4  a 3  is 3" in answer.stdout
    assert re.search(r"Spark's pages: http://127\.0\.0\.1:\d+/StreamingQuery", answer.stdout)
    # Asked of these pages: one for each batch at least, and a word goes through two.
    ran = re.search(r"Spark ran (\d+) jobs", answer.stdout)
    assert ran is not None
    assert int(ran[1]) >= 2
