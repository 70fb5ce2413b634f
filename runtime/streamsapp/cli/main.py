"""The ``streamsapp`` command: parses arguments, calls a command, turns errors into exit codes.

Runs on the main thread. 0: done. 1: failed at run time. 2: the user's input is wrong, reported without a traceback.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from streamsapp.cli import (
    audit,
    bootstrap,
    check,
    completion,
    consume,
    describe,
    list_topics,
    local,
    new,
    preview,
    produce,
    reset,
    run,
    snapshots,
    sub_topologies,
    validate,
)
from streamsapp.cli.pod import tell_supervisor
from streamsapp.cli.version import PrintVersion
from streamsapp.errors import ImmediateExit, ManifestError, StreamsAppError, UserInputError, told_as
from streamsapp.log_format import FORMATS, LEVELS, set_up_logging
from streamsapp.manifest.settings import as_in_the_manifest

DONE, FAILED, WRONG_INPUT = 0, 1, 2

log = logging.getLogger(__name__)

#: Adds its arguments to a parser and names the function that runs it.
Command: TypeAlias = Callable[["argparse._SubParsersAction[argparse.ArgumentParser]"], None]

_COMMANDS: tuple[Command, ...] = (
    new.add_command,
    run.add_command,
    local.add_command,
    produce.add_command,
    consume.add_command,
    list_topics.add_command,
    describe.add_command,
    validate.add_command,
    check.add_command,
    snapshots.add_command,
    sub_topologies.add_pause,
    sub_topologies.add_resume,
    reset.add_command,
    bootstrap.add_command,
    audit.add_command,
    preview.add_command,
    completion.add_command,
)

_EXAMPLES = """\
to begin with:
  streamsapp new hello                   writes a project to begin with
  streamsapp validate -f app.yaml        checks the manifest, and builds its topology
  streamsapp describe -f app.yaml        prints the topology as Kafka Streams writes it
  streamsapp local -f app.yaml           runs everything here, with a broker of its own
  streamsapp run -f app.yaml             runs one instance, as a pod does

exit codes: 0 means done, 1 that something failed at run time, 2 that the input is wrong
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    _open_missing_streams()
    options = make_parser().parse_args(arguments)
    set_up_logging(options.log_level, options.log_format)
    with told_as(as_in_the_manifest):
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except UserInputError as error:
        tell_supervisor(error)
        _tell(error, getattr(options, "file", None))
        return WRONG_INPUT
    except StreamsAppError as error:
        log.debug("failed", exc_info=True)
        tell_supervisor(error)
        _tell(error, None)
        return FAILED
    except BrokenPipeError:
        # The reader has what it wanted (`| head`); the interpreter must not try to flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return FAILED
    except ImmediateExit:
        # Everything committed is safe: the state is that of a crash, and a crash is recovered from.
        logging.shutdown()
        os._exit(FAILED)
    else:
        return code


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="streamsapp",
        description="streamsapp runs stateful stream processing applications on Kafka, compatible with Kafka Streams.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action=PrintVersion, nargs=0, help="print the versions of streamsapp and of what runs beneath"
    )
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        default="info",
        help="the least level of the lines that are logged; default: info",
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="auto",
        help="auto writes readable text on a terminal, and JSON lines elsewhere",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add_command in _COMMANDS:
        add_command(commands)
    return parser


def _open_missing_streams() -> None:
    """Opens what the shell has closed (``2>&-``), where Python has ``None``: nothing is read, and no program reads the
    output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # it stays open


def _tell(error: StreamsAppError, manifest: Path | None) -> None:
    """A line for each fault; those of the manifest begin with its file, those of the command line do not. Nothing
    that a terminal would obey is left of what others have written."""
    named = isinstance(error, ManifestError) and manifest is not None
    lines = ManifestError(error.faults if isinstance(error, ManifestError) else str(error).split("\n")).faults
    with suppress(OSError):
        for line in lines:
            print(f"{manifest}: {line}" if named and not line.startswith("--") else line, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # no program reads it; the exit code is returned all the same
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
