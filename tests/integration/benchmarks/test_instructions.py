"""Records take no more instructions than in the last release: counted for every workload, in both trees."""

from __future__ import annotations

import shutil

import pytest
from benchmarks.instructions import main, released

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed, which counts instructions")
def test_no_workload_takes_more_than_in_the_last_release(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        released()
    except LookupError as error:
        pytest.skip(str(error))

    assert main() == 0, capsys.readouterr().out
