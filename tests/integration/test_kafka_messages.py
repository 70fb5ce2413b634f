"""The checked-in types of messages are equal to what ``make messages`` makes from the schemas in Kafka's jar."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafka_messages

ROOT = Path(__file__).parents[2]


def test_types_that_are_checked_in_are_those_that_are_made() -> None:
    made = dict(kafka_messages.modules())

    checked_in = {
        path.relative_to(ROOT)
        for folder in (kafka_messages.MESSAGES, kafka_messages.BY_HAND)
        for path in (ROOT / folder).glob("*.py")
        if path.name != "__init__.py"
    }
    assert checked_in == made.keys()
    assert [str(path) for path, text in made.items() if (ROOT / path).read_text("utf-8") != text] == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"flexibleVersions": "2+"}, "Text of NewsRequest is otherwise in some versions"),
        ({"taggedVersions": "1+", "tag": 0}, "Text of NewsRequest is otherwise in some versions"),
        (
            {"type": "Part", "nullableVersions": "0+", "fields": []},
            "Text of NewsRequest is a structure that may be none",
        ),
    ],
)
def test_a_schema_that_the_codec_does_not_know_is_refused(change: dict[str, object], why: str) -> None:
    field = {"name": "Text", "type": "string", "versions": "0+", **change}
    schema = {
        "name": "NewsRequest",
        "type": "data",
        "validVersions": "0-3",
        "flexibleVersions": "1+",
        "fields": [field],
    }
    with pytest.raises(kafka_messages.UnknownSchemaError, match=why):
        kafka_messages.module([schema], greatest=3)


def test_a_version_that_kafka_does_not_have_is_refused() -> None:
    schema = {"name": "News", "type": "data", "validVersions": "0-3", "flexibleVersions": "1+", "fields": []}
    with pytest.raises(kafka_messages.UnknownSchemaError, match="News has versions up to 3, and not 4"):
        kafka_messages.module([schema], greatest=4)
