"""Fields that an older StreamsApp resource hides are found by the object as it was read, and named."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp_operator.kube import OlderDefinition
from streamsapp_operator.kube.definition import every_field, hidden_fields, lacks, require_whole
from streamsapp_operator.packaged_files import definition

KNOWN = every_field(definition())


def read(spec: dict[str, Any], *managed: dict[str, Any]) -> dict[str, Any]:
    """An application as it was read, and the fields of the spec that each manager set."""
    entries = [{"manager": f"m{number}", "fieldsV1": {"f:spec": each}} for number, each in enumerate(managed)]
    return {"metadata": {"name": "a", "managedFields": entries}, "spec": spec}


def test_what_somebody_set_and_the_object_lacks_was_hidden() -> None:
    managed: dict[str, Any] = {
        "f:rollout": {".": {}, "f:soakSeconds": {}, "f:partition": {}},
        "f:errors": {"f:processing": {}},
    }
    document = read({"rollout": {"partition": 0}}, {"f:replicas": {}}, managed)
    assert hidden_fields(document, KNOWN) == ["spec.replicas", "spec.rollout.soakSeconds", "spec.errors"]
    with pytest.raises(OlderDefinition, match=r"hides spec\.replicas, spec\.rollout\.soakSeconds, spec\.errors\. "):
        require_whole(document, KNOWN)


def test_an_object_that_has_all_that_was_set_is_whole() -> None:
    lists = {
        "f:topology": {"f:steps": {"k:{}": {"f:x": {}}, "v:1": {}, "i:0": {}}},
        "f:kafka": {"f:bootstrapServers": {}},
    }
    require_whole(read({"topology": {"steps": [{}]}, "kafka": {"bootstrapServers": "k:9092"}}, lists), KNOWN)
    require_whole({"metadata": {"name": "a"}, "spec": {}}, KNOWN)


@pytest.mark.parametrize("managed", [None, {}, [], [None], [{}], [{"fieldsV1": 3}], [{"fieldsV1": {"f:spec": "x"}}]])
def test_odd_managed_fields_hide_nothing(managed: object) -> None:
    assert hidden_fields({"metadata": {"managedFields": managed}, "spec": None}, KNOWN) == []


def test_the_status_and_the_scale_hide_nothing() -> None:
    entries = [{"subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]
    assert hidden_fields({"metadata": {"managedFields": entries}, "spec": {}}, KNOWN) == []


def test_every_field_is_all_that_the_shipped_definition_has() -> None:
    known = every_field(definition())
    assert {"applicationId", "rollout", "errors", "kafka", "spark"} <= known.keys()
    assert {"soakSeconds", "partition", "preview"} <= known["rollout"].keys()
    assert "start" in known["rollout"]["maintenanceWindows"][0]


def test_keys_of_a_mapping_that_has_no_schema_are_not_compared() -> None:
    """Server-side apply lists a key without a value, which the object never has."""
    properties: dict[str, Any] = {"f:properties": {"f:x": {}}}
    document = read(
        {"kafka": {"properties": {}}, "podTemplate": {}}, {"f:kafka": properties, "f:podTemplate": {"f:y": {}}}
    )
    require_whole(document, KNOWN)


def test_a_field_of_a_release_to_come_is_compared() -> None:
    document = read({"rollout": {}, "new": {}}, {"f:rollout": {"f:since": {}}, "f:newer": {}, "f:new": {"f:deep": {}}})
    assert hidden_fields(document, KNOWN) == ["spec.rollout.since", "spec.newer"]


def test_a_long_list_of_fields_is_cut() -> None:
    assert "it lacks a, b, c, d, e and 2 more" in str(lacks([*"abcdefg"]))
