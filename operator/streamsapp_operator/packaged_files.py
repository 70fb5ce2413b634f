"""Finds the files that the operator is installed with. Called by its command line, on the main thread."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent


def chart_folder() -> Path:
    """Returns the Helm chart's folder: inside of the package where that is installed, beside it in the source tree."""
    installed = _HERE / "chart"
    return installed if installed.is_dir() else _HERE.parents[1] / "charts" / "streamsapp"
