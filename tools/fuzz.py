"""Feeds what parses bytes of the network with inputs that lead to code that no input before has reached.

Run by ``make fuzz``: ``MINUTES`` for all targets of ``tests/fuzz`` together, which are run one after the other. The C
is compiled by PyPI's clang with address sanitizer and counters, and libFuzzer comes in Atheris' wheel: neither needs
root. An input may take ``SECONDS`` and a process ``MEGABYTES``; what goes wrong is kept in ``build/fuzz``, and
``tools/fuzz.py --repeat TARGET FILE`` runs it again.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from check_c import LANGUAGE, NATIVE, ROOT
from terminal import step

LOCKS = (ROOT / "requirements-fuzz.lock", ROOT / "requirements-compiler.lock")
BUILD = ROOT / "build" / "fuzz"
PACKAGES = BUILD / "packages"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
TARGETS = ROOT / "tests" / "fuzz" / "fuzz_targets.py"
NAMES = ("answer", "chunk", "batch", "decompression", "tls")
LARGEST_INPUT = 4096
SECONDS, MEGABYTES = 10, 768
FLAGS = (
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-DPLAIN_CRC",
    "-fsanitize=address,undefined",
    "-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp",
)


def main() -> int:
    """Exit code 1 when an input makes a target crash, hang or take too much memory."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--repeat", nargs=2, metavar=("TARGET", "FILE"))
    given = parser.parse_args()
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        print("libFuzzer comes from PyPI for Linux on x86-64 alone: nothing is fuzzed here")
        return 1
    environment = _environment(_set_up())
    if given.repeat:
        target, file = given.repeat
        return subprocess.run(
            _command(target, str(Path(file).resolve())), env=environment, cwd=BUILD, check=False
        ).returncode
    failed = [name for name in NAMES if not _fuzz(name, given.minutes * 60 / len(NAMES), environment)]
    return int(bool(failed))


def _set_up() -> Path:
    """Returns the compiled part with its counters."""
    if not (PACKAGES / "atheris").is_dir():
        with step("libFuzzer and a compiler"):
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--require-hashes"]
            locks = [option for lock in LOCKS for option in ("-r", str(lock))]
            subprocess.run([*pip, "--target", str(PACKAGES), *locks], check=True)
    module = BUILD / "compiled.so"
    sources = sorted(NATIVE.rglob("*.[ch]"))
    if not module.exists() or module.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        with step("the C part with its counters"):
            headers = f"-I{sysconfig.get_path('include')}"
            files = [str(path) for path in sources if path.suffix == ".c"]
            command = [
                sys.executable,
                "-m",
                "ziglang",
                "cc",
                *LANGUAGE,
                *FLAGS,
                headers,
                "-o",
                str(module),
                *files,
                "-ldl",
            ]
            subprocess.run(command, env={**os.environ, "PYTHONPATH": str(PACKAGES)}, check=True)
    return module


def _environment(module: Path) -> dict[str, str]:
    return {
        **os.environ,
        "STREAMSAPP_FUZZED": str(module),
        "LD_PRELOAD": str(PACKAGES / "asan_with_fuzzer.so"),
        "PYTHONPATH": os.pathsep.join(map(str, (PACKAGES, ROOT / "runtime"))),
        "PYTHONMALLOC": "malloc",  # or memory that is free is not seen to be
        "ASAN_OPTIONS": "detect_leaks=0",  # Python leaves a lot at its end; what a target loses runs into MEGABYTES
    }


def _command(target: str, *more: str) -> list[str]:
    limits = (f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}", f"-max_len={LARGEST_INPUT}")
    return [sys.executable, str(TARGETS), target, *limits, *more]


def _fuzz(target: str, seconds: float, environment: dict[str, str]) -> bool:
    """Says how many inputs there were, and returns whether all went well."""
    found, kept = BUILD / "found" / target, CORPUS / target
    found.mkdir(parents=True, exist_ok=True)
    options = (
        f"-max_total_time={max(1, round(seconds))}",
        f"-artifact_prefix={BUILD}/{target}-",
        "-print_final_stats=1",
    )
    command = _command(target, *options, str(found), str(kept))
    ended = subprocess.run(command, env=environment, cwd=BUILD, capture_output=True, text=True, check=False)
    told = ended.stdout + ended.stderr
    numbers = dict(re.findall(r"stat::(\w+):\s+(\d+)", told))
    print(
        f"{target}: {numbers.get('number_of_executed_units', '?')} inputs, {numbers.get('average_exec_per_sec', '?')} "
        f"a second, at most {numbers.get('peak_rss_mb', '?')} MB",
        flush=True,
    )
    if ended.returncode:
        print(told[-6000:], f"\n{target} failed; the input is in {BUILD}: tools/fuzz.py --repeat {target} FILE")
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
