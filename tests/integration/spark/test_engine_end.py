"""A driver that is asked to end does so in its time, whatever Java does, and leaves nothing behind that stays."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from instances import Instances, eventually
from spark_apps import finished
from spark_counting import Counted, child_of

#: Each has sessions of Spark's.
pytestmark = [pytest.mark.timeout(1100), pytest.mark.long]


def test_a_driver_whose_java_hangs_ends_in_its_time_and_the_next_one_goes_on(
    instances: Instances, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")  # each has its own Java
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    counted = Counted(instances, "java-hangs", "200ms")
    counted.produce(100)
    hung = counted.driver("--shutdown-timeout", "3")
    with ExitStack() as running:
        running.callback(hung.communicate)
        running.callback(hung.kill)
        eventually(counted.done, "the first results", 600.0)
        java = child_of(hung.pid, "java")
        os.kill(java, signal.SIGSTOP)
        try:
            hung.terminate()
            assert hung.wait(60) == 1
        finally:
            os.kill(java, signal.SIGKILL)  # it shares the driver's output, which ends only when Java ends
        errors = hung.communicate(timeout=60)[1]
        assert "closing did not end within 3 s" in errors, errors[-6000:]
        counted.produce(100)
        heir = counted.driver()
        running.callback(heir.communicate)
        running.callback(heir.kill)
        eventually(counted.done, "results of the next one", 600.0)
        heir.terminate()
        code, _, errors = finished(heir)
        assert code == 0, errors[-6000:]
        counted.check()
    assert not list(tmp_path.glob("streamsapp-driver-*")), "what the first one left goes with the next one"
