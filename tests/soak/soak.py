"""The soak driver's command line: ``python -m soak``, which ``make soak`` calls.

Runs one seed after the other, each with brokers and instances of its own; the last line is ``N passed, N failed``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from pathlib import Path

from faults import AT_LEAST_ONCE, EXACTLY_ONCE, NAMES, Plan, make_plan
from moves import described
from soak_run import Report, run_plan


def main() -> int:
    options = _parse(sys.argv[1:])
    failed = 0
    for seed in range(options.seed, options.seed + options.runs):
        plan = make_plan(seed, options.guarantee, options.instances, broker_restarts=options.broker_restarts,
                         remote=options.remote, secured=options.secured)  # fmt: skip
        plan = replace(plan, client=options.client)
        failed += bool(run_and_report(plan, options.keep / f"seed-{seed}").findings)
    print(f"{options.runs - failed} passed, {failed} failed")
    return 1 if failed else 0


def run_and_report(plan: Plan, directory: Path) -> Report:
    """Run one plan and report how it went; a failed run keeps its directory."""
    shutil.rmtree(directory, ignore_errors=True)
    began = time.monotonic()
    try:
        report = run_plan(plan, directory)
    except Exception:
        report = Report(plan, [f"the run itself broke off:\n{traceback.format_exc()}"])
    told = describe(report, time.monotonic() - began)
    print(told, flush=True)
    if report.findings:
        (directory / "findings.txt").write_text("\n".join([told, *report.findings, ""]), encoding="utf-8")
        for finding in report.findings:
            print(f"    {finding}")
        print(f"    logs, state and topics: {directory}", flush=True)
    else:
        shutil.rmtree(directory)
    return report


def describe(report: Report, seconds: float) -> str:
    """One line about a run."""
    plan = report.plan
    over = f"{'three brokers over SASL_SSL' if plan.secured else 'plaintext'} by {plan.client}"
    settings = f"{over}, commit {plan.commit_interval_ms} ms, threads {plan.threads}, standbys {plan.standby_replicas}"
    figures = (
        f"{report.records} records, caught up after {report.caught_up_after:.1f} s, ended after "
        f"{report.ended_after:.1f} s, lags compared {report.lags_compared}, longest gap {report.gap or 'none'}"
    )
    if report.hand_overs:
        figures += f", {described(report.hand_overs)}"
    if plan.snapshot_interval:
        settings += f", snapshots {plan.snapshot_interval:.0f} s"
        figures += (
            f", {report.begun_with_snapshots} restores began with a snapshot, {report.snapshots_compared} compared"
        )
    verdict = "FAILED" if report.findings else "ok"
    deeds = "; ".join(map(str, plan.deeds)) or "none"
    return f"seed {plan.seed} {plan.guarantee} {verdict} {seconds:.1f} s ({settings}; {figures}) faults: {deeds}"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description="Seeded faults on real instances and a real broker.")
    parser.add_argument("--runs", type=int, default=50, metavar="N", help="seeds to run; default: 50")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first of them; default: 1")
    parser.add_argument("--guarantee", choices=("both", EXACTLY_ONCE, AT_LEAST_ONCE), default="both")
    parser.add_argument("--instances", type=int, default=3, choices=range(1, len(NAMES) - 1), metavar="N")
    parser.add_argument(
        "--remote", action="store_true", help="snapshots on an S3 server, and faults of both and of disks"
    )
    parser.add_argument("--secured", action="store_true", help="three brokers, reached by SASL_SSL (SCRAM-SHA-512)")
    parser.add_argument("--client", choices=("streamsapp", "librdkafka"), default="streamsapp",
                        help="the client that moves their records")  # fmt: skip
    parser.add_argument("--broker-restarts", action="store_true", help="restart the broker under exactly once too, "
                        "which loses transaction markers (docs/decisions/0007)")  # fmt: skip
    parser.add_argument("--keep", type=Path, metavar="DIR", default=Path(tempfile.gettempdir()) / "streamsapp-soak",
                        help="where failed runs leave logs, state and topics")  # fmt: skip
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs: expected an integer of at least 1")
    options.guarantee = None if options.guarantee == "both" else options.guarantee
    return options


if __name__ == "__main__":
    sys.exit(main())
