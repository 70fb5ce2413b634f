"""``kubectl streamsapp``: parses arguments, calls a command, turns errors into exit codes.

Runs on the main thread. 0: done. 1: failed, or a restart that was followed did not end well. 2: the input is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from streamsapp.clock import SystemClock
from streamsapp_operator.plugin import (
    console,
    holds,
    logs,
    preview,
    records,
    report,
    reset,
    restart,
    rollout,
    scale,
    snapshot,
    snapshots,
    status,
    topology,
)
from streamsapp_operator.plugin.errors import FAILED, PluginError
from streamsapp_operator.plugin.session import CommandSession, warn
from streamsapp_operator.plugin.style import Style

_EXAMPLES = """\
examples:
  kubectl streamsapp status wordcount              how is it, and may a pod be restarted now?
  kubectl streamsapp status wordcount --watch      the same, over and over
  kubectl streamsapp restart wordcount --wait      restart all pods safely, and watch it
  kubectl streamsapp restart wordcount --pod wordcount-1
  kubectl streamsapp rollout status wordcount      follow the rollout to its end; history, and undo
  kubectl streamsapp pause wordcount               hold a rollout; approve lets it go on
  kubectl streamsapp scale wordcount 4
  kubectl streamsapp topology wordcount --format mermaid
  kubectl streamsapp snapshots wordcount -o json
  kubectl streamsapp snapshot now wordcount        a snapshot of every task, before maintenance
  kubectl streamsapp report wordcount              a file for support, without secrets
  kubectl streamsapp logs wordcount --follow       the lines of all pods
  kubectl streamsapp console wordcount             a page that shows what it does
  kubectl streamsapp consume wordcount counts      records of a topic, as JSON; produce writes them
  kubectl streamsapp preview wordcount -f new.yaml what a change would do to results and state
  kubectl streamsapp reset wordcount --dry-run     what starting over would delete

exit codes: 0 done, 1 failed, 2 the input is wrong
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the plugin; returns the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        code: int = options.run(options, _session(options))
        sys.stdout.flush()
    except PluginError as error:
        warn(str(error))
        return error.code
    except BrokenPipeError:
        # The reader has what it wanted (`| head`); the interpreter must not try to flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        print()
        return 0 if getattr(options, "watch", False) or getattr(options, "follow", False) else FAILED
    return code


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="kubectl streamsapp",
        description="Shows and steers StreamsApps, with your own rights in the cluster.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (
        status, restart, rollout, holds, scale, topology, snapshots, snapshot, logs, report, console, records, preview,
        reset,
    ):  # fmt: skip
        command.add(commands)
    return parser


def _session(options: argparse.Namespace) -> CommandSession:
    # Late: this import takes most of a second, which --help and wrong arguments need not wait for.
    from streamsapp_operator.plugin.cluster import connect

    return CommandSession(
        cluster=connect(options.kubeconfig, options.context, options.namespace),
        out=sys.stdout,
        style=Style.of(sys.stdout, os.environ),
        clock=SystemClock(),
        wait=time.sleep,
        live=sys.stdout.isatty() and os.environ.get("TERM") != "dumb",
    )


if __name__ == "__main__":
    sys.exit(main())
