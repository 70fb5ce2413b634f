"""Finds the files that the operator is installed with. Called by its command line, and once at its start, on the main
thread."""

from __future__ import annotations

from pathlib import Path

import yaml

from streamsapp_operator.kube.kinds import Object

_HERE = Path(__file__).resolve().parent


def chart_folder() -> Path:
    """Returns the Helm chart's folder: inside of the package where that is installed, beside it in the source tree."""
    installed = _HERE / "chart"
    return installed if installed.is_dir() else _HERE.parents[1] / "charts" / "streamsapp"


def definition() -> Object:
    """Returns the CustomResourceDefinition of this release."""
    installed = _HERE / "streamsapps.yaml"
    found = installed if installed.is_file() else _HERE.parents[1] / "crds" / "streamsapps.yaml"
    document: Object = yaml.safe_load(found.read_text("utf-8"))
    return document
