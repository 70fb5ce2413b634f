"""All that the operator may do is in ``allowed.txt``: a right that is added there was thought about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from api_server import ApiServer
from operator_process import until

ALLOWED = (Path(__file__).parent / "allowed.txt").read_text("utf-8").splitlines()
ACCOUNT = "streamsapp-operator"

Render = Callable[..., list[dict[str, Any]]]


def rights_of(documents: Iterable[dict[str, Any]]) -> list[str]:
    """Every right that is bound to the operator's account: where, on what, which verbs."""
    documents = list(documents)
    roles = {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]): each for each in documents}
    found: list[str] = []
    for binding in documents:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        assert [subject["name"] for subject in binding["subjects"]] == [ACCOUNT]
        namespace, reference = binding["metadata"].get("namespace"), binding["roleRef"]
        role = roles[reference["kind"], namespace if reference["kind"] == "Role" else None, reference["name"]]
        where = "own" if reference["name"].endswith("-leader") else namespace or "everywhere"
        found += [f"{where}: {what}" for rule in role["rules"] for what in _rule(rule)]
    return sorted(found)


def _rule(rule: dict[str, Any]) -> Iterator[str]:
    verbs = " ".join(sorted(rule["verbs"]))
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for name in rule.get("resourceNames", [None]):
                yield "/".join(part for part in (group, resource, name) if part) + f" {verbs}"


def test_the_operator_may_do_exactly_what_is_listed(render: Render) -> None:
    assert rights_of(render()) == ALLOWED


def test_each_watched_namespace_has_the_same_rights_and_no_other_has_any(render: Render) -> None:
    found = rights_of(render('watch.namespaces=["red","blue"]'))
    own = [line for line in ALLOWED if line.startswith("own")]
    there = [line.removeprefix("apps") for line in ALLOWED if line.startswith("apps")]
    assert found == sorted([*own, *(f"red{line}" for line in there), *(f"blue{line}" for line in there)])


def test_cluster_wide_rights_are_the_same_everywhere(render: Render) -> None:
    found = rights_of(render("watch.clusterWide=true"))
    assert found == sorted(line.replace("apps: ", "everywhere: ", 1) for line in ALLOWED)


def test_nothing_is_allowed_on_all_verbs_resources_or_groups(render: Render) -> None:
    rules = [rule for each in render("watch.clusterWide=true") if "rules" in each for rule in each["rules"]]
    assert not [rule for rule in rules for name in ("verbs", "resources", "apiGroups") if "*" in rule[name]]


@pytest.mark.parametrize("everywhere", [False, True])
def test_the_api_server_agrees(cluster: ApiServer, render: Render, everywhere: bool) -> None:
    documents = [
        each for each in render(f"watch.clusterWide={str(everywhere).lower()}") if "rbac" in each["apiVersion"]
    ]
    with applied(cluster, documents), cluster.client() as asked:
        for line in ALLOWED:
            what, *verbs = line.partition(": ")[2].split()
            # A busy API server hears of a role, and of its end, some time later.
            until(partial(may_all, asked, verbs, what), line)
        elsewhere = ("patch", "apps/statefulsets", "default")
        until(lambda: may(asked, *elsewhere) is everywhere, f"{elsewhere}: {everywhere}")


def test_the_api_server_refuses_what_others_would_have_asked_for(cluster: ApiServer, render: Render) -> None:
    refused = [
        ("get", "secrets"),
        ("list", "secrets"),
        ("patch", "secrets"),
        ("delete", "pods"),
        ("patch", "pods"),
        ("create", "pods/exec"),
        ("get", "pods/log"),
        ("update", "coordination.k8s.io/leases/another"),
        ("create", "streamsapp.dev/streamsapps"),
        ("delete", "streamsapp.dev/streamsapps"),
        ("delete", "apps/statefulsets"),
        ("patch", "batch/jobs"),
        ("create", "rbac.authorization.k8s.io/rolebindings"),
    ]
    documents = [each for each in render("watch.clusterWide=true") if "rbac" in each["apiVersion"]]
    with applied(cluster, documents), cluster.client() as asked:
        assert [each for each in refused if may(asked, *each)] == []


@contextmanager
def applied(cluster: ApiServer, documents: list[dict[str, Any]]) -> Iterator[None]:
    """While they are there. Roles need no account: its name is enough."""
    if "apps" not in cluster.kubectl("get", "namespaces", "-o=jsonpath={.items[*].metadata.name}").split():
        cluster.kubectl("create", "namespace", "apps")
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    cluster.kubectl("apply", "-f", "-", stdin=listed)
    yield
    cluster.kubectl("delete", "-f", "-", stdin=listed)


def may(asked: client.ApiClient, verb: str, what: str, namespace: str = "apps") -> bool:
    """Asks the API server about the operator's account; ``what`` is written as in ``allowed.txt``."""
    group, resource, part = _parts(what)
    name, subresource = (part, None) if resource == "leases" else (None, part)
    attributes = client.V1ResourceAttributes(
        namespace=namespace, verb=verb, group=group, resource=resource, name=name, subresource=subresource
    )
    user = f"system:serviceaccount:apps:{ACCOUNT}"
    review = client.V1SubjectAccessReview(
        spec=client.V1SubjectAccessReviewSpec(user=user, resource_attributes=attributes)
    )
    status = client.AuthorizationV1Api(asked).create_subject_access_review(review).status
    return status is not None and status.allowed


def may_all(asked: client.ApiClient, verbs: Iterable[str], what: str) -> bool:
    return all(may(asked, verb, what) for verb in verbs)


def _parts(what: str) -> tuple[str, str, str]:
    """Group, resource, and subresource or name; most groups have a dot."""
    first, *others = what.split("/")
    if "." in first or first in ("apps", "batch", "policy"):
        return first, others[0], "".join(others[1:])
    return "", first, "".join(others)
