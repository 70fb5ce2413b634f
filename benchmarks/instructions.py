"""Compares the instructions that a record takes in this tree, and in the last release.

Started by hand as ``python -m benchmarks.instructions``, and by a long test. Callgrind counts them, so a busy machine
changes nothing: two runs differ by a hundredth or less. It counts from a fetched record to its results, with stores on
disk and commits; clients and brokers are left out. The exit code is 1 if a case takes over 5 % more.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec
from benchmarks.cases import CASES, Case
from benchmarks.launch import ROOT
from benchmarks.nexmark.queries import SHAPES
from benchmarks.systems.counted_program import CountedCase, Given
from benchmarks.workloads import Message
from benchmarks.workloads_in_time import CUSTOMER_BYTES

from streamsapp.cache_folder import cache_dir

#: More of them than in the release by this factor is a step back.
ALLOWED = 1.05
#: Messages before counting begins, and counted ones.
_BEFORE, _COUNTED = 2_000, 8_000
_REQUESTS = Path(__file__).parent / "systems" / "callgrind_requests.c"
_PROGRAM = Path("benchmarks") / "systems" / "counted_program.py"
_SHAPES = _PROGRAM.with_name("streamsapp_nexmark.py")
_NAME, _SUM = (
    re.compile(r"^desc: Trigger: Client Request: (.+)$", re.MULTILINE),
    re.compile(r"^summary: (\d+)", re.MULTILINE),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.instructions", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--since", metavar="COMMIT", help="compare with this commit; default: the last release")
    commit = parser.parse_args().since or released()
    earlier = _tree_of(commit)
    with tempfile.TemporaryDirectory() as folder:
        cases = [counted_case(case) for case in chosen()]
        trees = ((earlier, "before"), (ROOT, "now"))
        before, now = (counted(tree, known(cases, tree), Path(folder, name)) for tree, name in trees)
    print(f"{'instructions of a record':40}{'before':>10}{'now':>10}{'ratio':>8}")
    for name, count in now.items():
        then = before.get(name, 0)
        ratio = f"{count / then:8.3f}" if then else f"{'new':>8}"
        print(f"{name:40}{then / _COUNTED:10,.0f}{count / _COUNTED:10,.0f}{ratio}")
    worse = steps_back(before, now)
    print(f"over {ALLOWED - 1:.0%} more than in {commit[:12]}: {', '.join(worse) or 'none'}")
    return 1 if worse else 0


def steps_back(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Returns the cases that take more instructions than they may."""
    return [name for name, count in now.items() if name in before and count > ALLOWED * before[name]]


def released() -> str:
    """Returns the commit that gave this tree its version: the last release."""
    version = re.search(r'^version = "[^"]+"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert version is not None
    found = _git("log", "-1", "--format=%H", f"-S{version[0]}", "--", "pyproject.toml").decode().strip()
    if not found:
        raise LookupError(f"the history of this clone has no commit that wrote {version[0]}: fetch it whole")
    return found


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True).stdout


def _tree_of(commit: str) -> Path:
    """Returns the folder with that commit, set up; it is kept for the next time."""
    tree = cache_dir() / "benchmarks" / f"release-{commit[:12]}"
    if not (tree / "ready").exists():
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(tree)], input=_git("archive", commit), check=True)
        subprocess.run([sys.executable, str(tree / "tools" / "set_up.py")], check=True)
        (tree / "ready").touch()
    return tree


def chosen() -> Iterator[Case]:
    """Returns our cases, each once, and programs that are counted only."""
    for case in (*CASES, *(Case("SHAPES", "streamsapp", "default", workload) for workload in SHAPES)):
        if case.system == "streamsapp" and case.group not in ("SPARK", "RESTORE") and not _repeats(case):
            yield case


def _repeats(case: Case) -> bool:
    """Says whether a case is another one where there is no broker, or needs one."""
    return case.instances > 1 or case.workload.changelog or case.variant.startswith("eos-")


def counted_case(case: Case) -> CountedCase:
    """Returns a case with its messages; a table has the rows that they meet."""
    workload = case.workload
    messages = list(islice(workload.messages(), _BEFORE + _COUNTED))
    given = list(map(_given, messages))
    table = [] if workload.table is None else list(_wanted(workload.table(), messages))
    return CountedCase(workload.name, case.variant, [*map(_given, table), *given[:_BEFORE]], given[_BEFORE:])


def _wanted(rows: Iterable[Message], messages: Iterable[Message]) -> Iterator[Message]:
    """Returns the rows of a table that these messages meet."""
    keys = {key for message in messages for key in (message.key, (message.value or b"")[:CUSTOMER_BYTES])}
    return (row for row in rows if row.key in keys)


def _given(message: Message) -> Given:
    return "right" if message.right else "input", message.key, message.value, message.timestamp


def known(cases: Iterable[CountedCase], tree: Path) -> list[CountedCase]:
    """Returns the cases whose programs a tree has: a release may be from before some of the :data:`SHAPES`."""
    programs = (tree / _SHAPES).read_text("utf-8") if (tree / _SHAPES).exists() else ""
    shapes = {workload.name for workload in SHAPES}
    return [case for case in cases if case.workload not in shapes or f'"{case.workload}"' in programs]


def counted(tree: Path, given: list[CountedCase], folder: Path) -> dict[str, int]:
    """Returns the instructions of each case in a tree that is set up."""
    folder.mkdir()
    cases = folder / "cases"
    cases.write_bytes(msgspec.msgpack.encode(given))
    requests = folder / "requests.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(requests), str(_REQUESTS)], check=True)
    program = tree if (tree / _PROGRAM).exists() else ROOT  # a release from before has none
    subprocess.run(
        ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder / 'counts'}",
         str(tree / ".venv" / "bin" / "python"), str(program / _PROGRAM), str(requests), str(cases)],
        check=True, cwd=folder,
        env={"PYTHONPATH": f"{program}:{tree / 'runtime'}", "PYTHONHASHSEED": "0", "HOME": str(folder)},
    )  # fmt: skip
    texts = [file.read_text("ascii") for file in sorted(folder.glob("counts.*"))]
    return {name[1]: int(total[1]) for text in texts if (name := _NAME.search(text)) and (total := _SUM.search(text))}


if __name__ == "__main__":
    sys.exit(main())
