"""StreamsApps on an API server, for tests of what it takes, refuses and keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest
from kubernetes import client


def document(name: str = "wordcount", **spec: Any) -> dict[str, Any]:
    """A StreamsApp; ``None`` leaves out what is there by default."""
    usual = {"topology": {"entrypoint": "wordcount:topology"}, "kafka": {"bootstrapServers": "kafka:9092"}}
    return {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": name},
        "spec": {field: value for field, value in (usual | spec).items() if value is not None},
    }


class Applications:
    """StreamsApps of one namespace, as the API server takes and keeps them."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._objects = client.CustomObjectsApi(api)
        self._where: dict[str, Any] = {
            "group": "streamsapp.dev",
            "version": "v1alpha1",
            "namespace": namespace,
            "plural": "streamsapps",
        }

    def create(self, document: dict[str, Any]) -> dict[str, Any]:
        return _object(self._objects.create_namespaced_custom_object(**self._where, body=document))

    def replace(self, document: dict[str, Any]) -> dict[str, Any]:
        name = document["metadata"]["name"]
        return _object(self._objects.replace_namespaced_custom_object(**self._where, name=name, body=document))

    def write_status(self, document: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        return _object(
            self._objects.replace_namespaced_custom_object_status(
                **self._where, name=document["metadata"]["name"], body=document | {"status": status}
            )
        )

    def scale(self, name: str, replicas: int) -> dict[str, Any]:
        return _object(
            self._objects.patch_namespaced_custom_object_scale(
                **self._where, name=name, body={"spec": {"replicas": replicas}}
            )
        )


def _object(answer: object) -> dict[str, Any]:
    assert isinstance(answer, dict)
    return answer


def refusal(act: Callable[[], object]) -> list[tuple[str, str]]:
    """The fields that the API server refuses, and what it says of each."""
    with pytest.raises(client.ApiException) as raised:
        act()
    assert raised.value.status == HTTPStatus.UNPROCESSABLE_ENTITY
    causes = json.loads(raised.value.body or "")["details"]["causes"]
    return [(re.sub(r"\[(\w+)\]", r".\1", cause["field"]), cause["message"]) for cause in causes]
