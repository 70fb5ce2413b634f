"""The native data path keeps to its memory: under sanitizers, over many records, and at the end of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from compiled_trees import tree_compiled_with

PROGRAMS = Path(__file__).resolve().parents[2] / "support"
SANITIZERS = ("libasan.so", "libubsan.so")
#: The unit tests of what reads bytes of brokers; the long tests here run the rest under sanitizers.
UNIT_TESTS = (
    "native/test_answers.py",
    "native/test_fields.py",
    "native/test_fuzz_corpus.py",
    "native/test_numbers.py",
    "native/test_packed_records.py",
    "native/test_tls.py",
    "brokers/test_tls.py",
)


def run(program: str, part: str, broker: str, **environment: str) -> str:
    """Returns what it printed; it must end well."""
    done = subprocess.run(
        [sys.executable, PROGRAMS / program, part, broker],
        env={**os.environ, **environment},
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
    if Path(found).is_absolute():
        return found
    assert "CI" not in os.environ, f"the compiler has no {name}: tests run without sanitizers"
    pytest.skip(f"the compiler has no {name}")


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a program whose compiled part is made with sanitizers."""
    preloaded = " ".join(map(sanitizer, SANITIZERS))
    flags = [
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
        "-fno-omit-frame-pointer",
        "-DPLAIN_CRC",
        *("-O1", "-fno-lto"),  # half the time that compiling takes, and the same faults are found
    ]
    tree = tree_compiled_with(tmp_path_factory.mktemp("sanitized"), "-g", *flags)
    return {
        "PYTHONPATH": f"{tree}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "LD_PRELOAD": preloaded,
        "PYTHONMALLOC": "malloc",  # or memory that is free is not seen to be
        "ASAN_OPTIONS": "detect_leaks=0",  # Python leaves a lot at its end
    }


@pytest.mark.timeout(900)  # it compiles, and each test takes some times as long
def test_unit_tests_pass_under_sanitizers(sanitized: dict[str, str]) -> None:
    files = [str(Path(__file__).parents[1] / name) for name in UNIT_TESTS]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not long", *files],
        env={**os.environ, **sanitized},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "AddressSanitizer" not in done.stderr
    assert "runtime error" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "part"),
    [
        ("native_stress.py", "stress"),
        ("native_faults.py", "transactions"),
        ("native_faults.py", "bounces"),
        pytest.param(
            "native_faults.py",
            "nomemory",
            marks=pytest.mark.skipif(not find_spec("_testcapi"), reason="this Python has no _testcapi"),
        ),
    ],
)
def test_sanitizers_find_nothing(program: str, part: str, broker: str, sanitized: dict[str, str]) -> None:
    told = run(program, part, broker, **sanitized)

    assert "Sanitizer" not in told
    assert "runtime error" not in told


@pytest.mark.long
def test_no_memory_is_lost_over_many_records(broker: str, compiled: ModuleType) -> None:
    run("native_stress.py", "leaks", broker)


@pytest.mark.long
def test_the_interpreter_ends_while_records_are_on_their_way(broker: str, compiled: ModuleType) -> None:
    for _ in range(3):
        run("native_stress.py", "exit", broker)
