"""Makes a revision: everything that a pod of an application is made of. A change of it is a rolling restart.

Made anew from a manifest, or read back from the ConfigMap of an earlier one. Pure.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec import structs

from streamsapp.errors import ManifestError
from streamsapp.manifest.model import Quantities, StreamsApp
from streamsapp_operator.children.config_map import (
    DRIVER_KEY,
    MANIFEST_KEY,
    SCHEDULE_KEY,
    TEMPLATE_KEY,
    binary_files,
    manifest_text,
    size_faults,
    text_files,
)
from streamsapp_operator.children.names import (
    PROGRAM_LABEL,
    REVISION_LABEL,
    Owner,
    config_map_name,
    name_faults,
    own_labels,
)
from streamsapp_operator.children.pod_template import pod_template
from streamsapp_operator.children.scheduled_run import ScheduledRun, run_template
from streamsapp_operator.children.settings import RenderSettings
from streamsapp_operator.children.spark_pods import cores_of, driver_template, executor_template, program_parts
from streamsapp_operator.children.user_code import CodeFiles

_DIGITS = 10

#: Properties of Kafka's clients whose value is a secret.
_SECRET = re.compile(r"password|passphrase|secret|jaas|key\.pem$|keystore\.key$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DriverPod:
    """The driver's pod template, and how many cores an executor has."""

    template: dict[str, Any]
    cores: int


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision: the content of its ConfigMap, and the hash of that."""

    id: str
    data: Mapping[str, str]
    binary_data: Mapping[str, str] = field(default_factory=dict)

    @property
    def template(self) -> dict[str, Any]:
        """Returns the pod template of its StatefulSet."""
        template: dict[str, Any] = json.loads(self.data[TEMPLATE_KEY])
        return template

    @property
    def driver(self) -> DriverPod | None:
        """Returns the driver of ``engine: spark``; ``None`` with the other engine."""
        text = self.data.get(DRIVER_KEY)
        return None if text is None else DriverPod(**json.loads(text))

    @property
    def program(self) -> str | None:
        """Returns the hash of what a driver and its executors must have in common; ``None`` without them."""
        found: str | None = self.template["metadata"]["labels"].get(PROGRAM_LABEL)
        return found

    @property
    def scheduled(self) -> ScheduledRun | None:
        """Returns the runs of ``spec.spark.schedule``; ``None`` without it."""
        text = self.data.get(SCHEDULE_KEY)
        return None if text is None else ScheduledRun(**json.loads(text))

    def config_map(self, owner: Owner) -> dict[str, Any]:
        metadata = owner.metadata(
            config_map_name(owner.name, self.id), own_labels(owner.name) | {REVISION_LABEL: self.id}
        )
        content = {"data": dict(self.data)} | ({"binaryData": dict(self.binary_data)} if self.binary_data else {})
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, **content}


def revision_of(app: StreamsApp, settings: RenderSettings, code: CodeFiles) -> Revision:
    """Returns the revision that the manifest asks for now; raises ``ManifestError`` with every fault that only a
    cluster finds."""
    spark = app.spec.engine == "spark"
    faults = [*name_faults(app.metadata.name, has_driver=spark), *size_faults(code), *_secret_faults(app)]
    try:
        nameless = pod_template(app, settings, code, revision="")
    except ManifestError as error:
        raise ManifestError([*faults, *error.faults]) from error
    if faults:
        raise ManifestError(faults)
    texts, binaries = {MANIFEST_KEY: manifest_text(app)} | text_files(code), binary_files(code)
    made_of = [*_spark_templates(app, nameless, "").values()] if spark else [nameless]
    revision = _hash([*made_of, texts, binaries])
    template = pod_template(app, settings, code, revision)
    templates = {TEMPLATE_KEY: template}
    if spark:
        program = _hash([*program_parts(app, nameless), texts | {MANIFEST_KEY: _without_resources(app)}, binaries])
        templates = _spark_templates(app, template, program)
    written = {key: json.dumps(document, sort_keys=True) for key, document in templates.items()}
    return Revision(revision, texts | written, binaries)


def _without_resources(app: StreamsApp) -> str:
    return manifest_text(structs.replace(app, spec=structs.replace(app.spec, resources=Quantities())))


def _spark_templates(app: StreamsApp, template: dict[str, Any], program: str) -> dict[str, Any]:
    if (spark := app.spec.spark).schedule is not None:
        run = ScheduledRun(spark.schedule, run_template(app, template), spark.deadline_seconds)
        return {TEMPLATE_KEY: template, SCHEDULE_KEY: asdict(run)}
    driver = {"template": driver_template(app, template, program), "cores": cores_of(app)}
    return {TEMPLATE_KEY: executor_template(app, template, program), DRIVER_KEY: driver}


def _secret_faults(app: StreamsApp) -> Iterator[str]:
    """Returns faults in secrets. The API server cannot find them: it has no rules about maps whose values are of any
    type."""
    for key in sorted(filter(_SECRET.search, app.spec.kafka.properties)):
        yield (
            f"spec.kafka.properties.{key}: all who may read the resource can read it; put it into the Secret of"
            f" spec.kafka.secretRef, as a file named {key}"
        )


def recorded_revision(config_map: Mapping[str, Any]) -> Revision:
    """Returns the revision whose ConfigMap this is."""
    labels = config_map["metadata"]["labels"]
    return Revision(labels[REVISION_LABEL], config_map["data"], config_map.get("binaryData") or {})


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8")).hexdigest()[:_DIGITS]
