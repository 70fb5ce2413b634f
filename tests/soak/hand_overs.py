"""The command line of many hand-overs: ``python -m hand_overs``, which ``make hand-overs`` calls.

Runs one seed after the other, under both guarantees in turn, each with a broker and instances of its own, until so many
hand-overs of each kind have been counted. The last lines say how many there were, and how many runs found a fault.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections import Counter
from pathlib import Path

from faults import AT_LEAST_ONCE, EXACTLY_ONCE
from moves import MoveKind, described, make_moves
from soak import run_and_report

GUARANTEES = (EXACTLY_ONCE, AT_LEAST_ONCE)


def main() -> int:
    options = _parse(sys.argv[1:])
    wanted = [options.guarantee] if options.guarantee else GUARANTEES
    found: dict[str, Counter[MoveKind]] = {guarantee: Counter() for guarantee in wanted}
    failed = runs = 0
    for seed in itertools.count(options.seed):
        for guarantee in wanted:
            plan = make_moves(seed, guarantee, options.moves, options.partitions)
            if _is_done(found[guarantee], plan.kinds, options.hand_overs):
                continue
            report = run_and_report(plan, options.keep / f"{guarantee}-{seed}")
            found[guarantee] += report.hand_overs
            runs += 1
            failed += bool(report.findings)
        if all(_is_done(counts, set(MoveKind), options.hand_overs) for counts in found.values()):
            break
        if runs >= options.runs:
            break
    for guarantee, counts in found.items():
        print(f"{guarantee}: {described(counts)}")
    print(f"seeds {options.seed} to {seed}: {runs - failed} runs passed, {failed} failed")
    return 1 if failed else 0


def _is_done(counts: Counter[MoveKind], kinds: set[MoveKind], wanted: int) -> bool:
    return all(counts[kind] >= wanted for kind in kinds)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hand_overs", description="Seeded hand-overs of real instances.")
    parser.add_argument("--hand-overs", type=int, default=1000, metavar="N",
                        help="of each kind, under each guarantee; default: 1000")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first one; default: 1")
    parser.add_argument("--runs", type=int, default=10_000, metavar="N", help="at most; default: 10000")
    parser.add_argument("--guarantee", choices=GUARANTEES)
    parser.add_argument("--moves", type=int, default=20, metavar="N", help="of each run; default: 20")
    parser.add_argument("--partitions", type=int, default=32, metavar="N",
                        help="of each topic, so twice as many tasks; default: 32")  # fmt: skip
    folder = Path(tempfile.gettempdir()) / "streamsapp-hand-overs"
    parser.add_argument("--keep", type=Path, metavar="DIR", default=folder,
                        help="where failed runs leave logs, state and topics")  # fmt: skip
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
