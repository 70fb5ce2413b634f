"""The changes that may be made to an application that exists, on a real API server."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from stream_apps import Applications, document, refusal

S3 = "s3://bucket/prefix"


class Change(NamedTuple):
    """The spec as it was, the spec that is wanted instead, and the field that stands against it."""

    before: dict[str, Any]
    after: dict[str, Any]
    field: str = ""
    words: str = ""


REFUSED_CHANGES = [
    Change({"applicationId": "a"}, {"applicationId": "b"}, "spec.applicationId", "change it back to 'a', or create"),
    Change({"applicationId": "a"}, {}, "spec.applicationId", "is immutable, as it names the consumer group"),
    Change({}, {"applicationId": "b"}, "spec.applicationId", "change it back to 'wordcount', or create another"),
    Change(
        {"remoteState": {"url": S3}},
        {"remoteState": {"url": "s3://bucket/other"}},
        "spec.remoteState.url",
        f"change it back to '{S3}', or",
    ),
    Change({"remoteState": {"url": S3}}, {}, "spec.remoteState", "cannot be removed once it is set"),
]

ALLOWED_CHANGES = {
    "the application's own name written out": Change({}, {"applicationId": "wordcount"}),
    "the application's own name left out": Change({"applicationId": "wordcount"}, {}),
    "remote state for an application without": Change({}, {"remoteState": {"url": S3}}),
    "another server of the same prefix": Change(
        {"remoteState": {"url": S3}}, {"remoteState": {"url": f"{S3}/", "endpoint": "http://minio:9000"}}
    ),
    "a bootstrap that comes too late": Change(
        {"remoteState": {"url": S3}}, {"remoteState": {"url": S3}, "bootstrap": {"until": "latest"}}
    ),
    "a bootstrap that is done": Change(
        {"remoteState": {"url": S3}, "bootstrap": {"until": {"a": {"0": 1}}}}, {"remoteState": {"url": S3}}
    ),
    "another form of topology": Change({}, {"topology": {"steps": []}}),
}


@pytest.mark.parametrize("change", REFUSED_CHANGES, ids=lambda change: f"{change.field} {change.words}")
def test_refuses_to_change(applications: Applications, change: Change) -> None:
    version = applications.create(document(**change.before))["metadata"]["resourceVersion"]

    after = document(**change.after)
    after["metadata"]["resourceVersion"] = version
    told = refusal(lambda: applications.replace(after))

    assert [message for field, message in told if field == change.field and change.words in message]


@pytest.mark.parametrize("change", ALLOWED_CHANGES.values(), ids=ALLOWED_CHANGES)
def test_lets_change(applications: Applications, change: Change) -> None:
    version = applications.create(document(**change.before))["metadata"]["resourceVersion"]

    after = document(**change.after)
    after["metadata"]["resourceVersion"] = version
    assert applications.replace(after)["metadata"]["generation"] == 2 or change.before == change.after
