"""The common part of commands that need Spark, which is not installed everywhere: its package is reached by name.

Runs on the main thread.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamsapp.errors import ManifestError, StreamsAppError

#: The bytes that Kubernetes keeps of a termination message.
MAX_REPORT_BYTES = 4096


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master",
        default="local[*]",
        metavar="URL",
        help="the address of Spark: local[*] (default), local[N], spark://..., k8s://...",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark's; the option may be given several times",
    )


def add_report_option(parser: argparse.ArgumentParser) -> None:
    """The operator's: where it reads what became of a Job."""
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)


@contextmanager
def failure_reported(report: Path | None) -> Iterator[None]:
    """Writes why the block fails to ``report``, if there is one."""
    try:
        yield
    except StreamsAppError as error:
        if report is not None:
            faults = error.faults if isinstance(error, ManifestError) else [str(error)]
            report.write_bytes("\n".join(faults).encode()[:MAX_REPORT_BYTES])
        raise


def in_spark_package(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """A function of the package ``streamsapp_spark``, which is imported when it is called."""

    def run(options: argparse.Namespace) -> int:
        code: int = getattr(spark_module(module), function)(options)
        return code

    return run


def spark_module(name: str) -> Any:
    """A module of that package; ``ManifestError`` if Spark is not installed."""
    try:
        return importlib.import_module(f"streamsapp_spark.{name}")
    except ModuleNotFoundError as error:
        raise ManifestError(
            [f"this command needs Spark, and {error.name} is not installed: pip install 'streamsapp[spark]'"]
        ) from error
