"""Renders all children of an application, in the order in which they are applied. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamsapp_operator.children.check_pod import check_pod
from streamsapp_operator.children.names import SPARK_WORD, Owner, http_secret_name, service_account_name
from streamsapp_operator.children.policies import disruption_budget, network_policy
from streamsapp_operator.children.revision import DriverPod, Revision
from streamsapp_operator.children.scheduled_run import cron_job
from streamsapp_operator.children.services import headless_service, query_service
from streamsapp_operator.children.settings import RenderSettings
from streamsapp_operator.children.spark_pods import driver_set
from streamsapp_operator.children.stateful_set import stateful_set


@dataclass(frozen=True, slots=True)
class Children:
    """The children of one revision of an application."""

    revision: str
    #: Every object but the check; the StatefulSet is the last, but for a CronJob.
    objects: tuple[dict[str, Any], ...]
    #: The children that the check needs, and its pod last: nothing of it touches pods that run.
    check: tuple[dict[str, Any], ...]


def render(
    owner: Owner,
    revision: Revision,
    settings: RenderSettings,
    *,
    replicas: int,
    max_unavailable: int,
    token_lines: Sequence[str],
    spark_word: str = "",
    going_on: Revision | None = None,
    runs_driver: bool = True,
    begins_runs: bool = False,
    replaces_run: bool = False,
) -> Children:
    """Renders the children. ``token_lines`` are the tokens that pods take, the newest first, and ``spark_word`` is what
    those of ``engine: spark`` know each other by; they are no part of the revision. ``going_on`` is that of the driver
    while its executors are replaced; ``runs_driver`` is false while the driver is to end before the executors,
    ``begins_runs`` while no scheduled run may begin; with ``replaces_run`` the next one takes the place of the one that
    is there."""
    driver, scheduled = revision.driver, revision.scheduled
    if driver is not None and going_on is not None:
        driver = going_on.driver or driver
    needed = (
        *_service_account(owner, revision),
        revision.config_map(owner),
        _http_secret(owner, token_lines, None if driver is None else spark_word),
    )
    runs = [] if scheduled is None else [cron_job(owner, scheduled, begins=begins_runs, replaces=replaces_run)]
    objects = (
        *needed,
        headless_service(owner),
        query_service(owner),
        disruption_budget(owner, max_unavailable),
        network_policy(owner, settings, among_pods=driver is not None),
        *(() if driver is None else [_driver_set(owner, driver, replicas, runs_driver)]),
        stateful_set(owner, revision, replicas),
        *runs,
    )
    return Children(revision.id, objects, (*needed, check_pod(owner, revision)))


def _service_account(owner: Owner, revision: Revision) -> list[dict[str, Any]]:
    """Returns the service account, ``None`` if the user names one."""
    name = service_account_name(owner.name)
    if revision.template["spec"]["serviceAccountName"] != name:
        return []
    metadata = owner.metadata(name)
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}]


def _driver_set(owner: Owner, driver: DriverPod, replicas: int, runs: bool) -> dict[str, Any]:
    return driver_set(owner, driver.template, driver.cores, replicas, runs=runs and replicas > 0)


def _http_secret(owner: Owner, token_lines: Sequence[str], spark_word: str | None) -> dict[str, Any]:
    texts = {"token": "".join(f"{line}\n" for line in token_lines)}
    if spark_word is not None:
        texts[SPARK_WORD] = spark_word
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": owner.metadata(http_secret_name(owner.name)),
        "type": "Opaque",
        "data": {key: base64.b64encode(text.encode("ascii")).decode("ascii") for key, text in texts.items()},
    }
