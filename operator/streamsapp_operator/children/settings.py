"""The operator's own settings that children are built with. Plain data, read from its environment by ``__main__``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """The operator's own part of every application's children."""

    #: Of pods whose manifest has no ``spec.image``; ``None``: the manifest must name one.
    runtime_image: str | None
    #: The place where the operator runs, and the labels of its pods: they may reach every application's port.
    operator_namespace: str
    operator_labels: Mapping[str, str] = field(
        default_factory=lambda: {"app.kubernetes.io/name": "streamsapp-operator"}
    )
    image_pull_policy: str = "IfNotPresent"
    #: Names of the Secrets to pull images with; ``spec.podTemplate`` may name more.
    image_pull_secrets: tuple[str, ...] = ()
    #: Of bootstraps and queries whose manifest names no image with Spark; ``None``: it must name one.
    spark_image: str | None = None
    #: Pods have the images' user and group; otherwise the cluster gives them some, as OpenShift does.
    fixed_user: bool = True
    #: Rules of a NetworkPolicy for what applications' pods reach, beside DNS and each other; empty: everything.
    egress: tuple[Mapping[str, Any], ...] = ()
