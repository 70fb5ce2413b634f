"""Builds the Job that makes state of history before an application's first pods start. Pure.

Its pod runs ``streamsapp bootstrap``.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from streamsapp.errors import ManifestError
from streamsapp.manifest.history_end import until_text
from streamsapp.manifest.model import BootstrapSpec
from streamsapp_operator.children.names import Owner, bootstrap_job_name, bootstrap_labels
from streamsapp_operator.children.pod_template import MANIFEST_PATH
from streamsapp_operator.children.revision import Revision
from streamsapp_operator.children.settings import RenderSettings
from streamsapp_operator.children.spark_job import job, job_spec, spark_pod

_DIGITS = 10


def bootstrap_job(
    owner: Owner, bootstrap: BootstrapSpec, revision: Revision, settings: RenderSettings
) -> dict[str, Any]:
    """Builds the Job; raises ``ManifestError`` if no image is known."""
    image = bootstrap.image or settings.spark_image
    if image is None:
        fault = "is required, as this operator was given no image with Spark; name one"
        raise ManifestError([f"spec.bootstrap.image: {fault}"])
    labels = bootstrap_labels(owner.name, revision.id)
    command = ["bootstrap", "-f", MANIFEST_PATH, "--until", until_text(bootstrap.until)]
    spec = job_spec(spark_pod(revision.template, labels, image, bootstrap.resources, command))
    return job(owner, bootstrap_job_name(owner.name), _hash(spec), spec)


def _hash(spec: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode("utf-8")).hexdigest()[:_DIGITS]
