"""The StreamsApp resource as an older release had it, without two fields, and as a newer one may have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

#: The fields that it lacks, and values of theirs that are not the defaults.
LACKING: dict[str, Any] = {"rollout": {"soakSeconds": 5}, "errors": {"processing": "continue"}}


def older_definition(newest: Path, target: Path) -> Path:
    """Writes the older resource to ``target``, which may be a link to the newest."""
    document = yaml.safe_load(newest.read_text("utf-8"))
    spec = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for section, fields in LACKING.items():
        for field in fields:
            del spec[section]["properties"][field]
    del spec["errors"]["x-kubernetes-validations"]  # it names the field
    target.unlink(missing_ok=True)
    target.write_text(yaml.safe_dump(document), "utf-8")
    return target


def newer_definition(newest: Path, target: Path) -> Path:
    """Writes the resource of a release to come to ``target``: ``spec.rollout`` has the field ``sinceThen``, too."""
    document = yaml.safe_load(newest.read_text("utf-8"))
    spec = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["rollout"]["properties"]["sinceThen"] = {"type": "string"}
    target.write_text(yaml.safe_dump(document), "utf-8")
    return target
