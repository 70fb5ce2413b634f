"""Documents that users nest as deeply as they like are read all the same, and named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamsapp_operator.kube.documents import CUT, DEEPEST, DEEPEST_SPEC, depth_fault, read_json


def nested(levels: int, inner: str = "1", key: str = "a") -> str:
    return f'{{"{key}":' * levels + inner + "}" * levels


def depth_of(value: Any) -> int:
    levels = 0
    while isinstance(value, dict | list):
        value, levels = (next(iter(value.values())) if isinstance(value, dict) else value[-1]), levels + 1
    return levels


@pytest.mark.parametrize("levels", [DEEPEST + 1, 400, 900, 2_000, 9_999])
def test_what_is_nested_too_deeply_is_cut_where_it_is_and_the_rest_of_the_list_is_whole(levels: int) -> None:
    tricky = {"name": 'a "quoted" \\ {[', "more": [1, {"b": None}, "]}"]}
    text = f'{{"items":[{json.dumps(tricky)},{nested(levels)},{"[" * levels + "]" * levels},{json.dumps(tricky)}]}}'
    items = read_json(text.encode())["items"]
    assert items[0] == items[3] == tricky
    assert depth_of(items[1]) == depth_of(items[2]) == DEEPEST - 2
    assert CUT in json.dumps(items[1])


def test_what_is_not_too_deep_is_read_whole() -> None:
    wide = {"items": [{"a": [[], {}, "[{" * 200, {"b": "}]" * 200}]}] * 500, "deep": json.loads(nested(DEEPEST - 1))}
    assert read_json(json.dumps(wide).encode()) == wide


@pytest.mark.parametrize("text", ["{" * 200 + '"\\', '"' + '\\"' * 100_000, "[" * 101 + '"' * 100_001, "{[}]" * 200])
def test_text_that_is_no_json_is_refused_soon(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        read_json(text.encode())


@pytest.mark.parametrize("text", ["", "{", '{"a":' * 2_000])
def test_what_is_no_document_is_an_error_of_the_value(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        read_json(text.encode())


def test_a_spec_is_refused_by_where_it_is_too_deep() -> None:
    spec = {"image": "x", "podTemplate": [json.loads(nested(DEEPEST_SPEC))]}
    fault = depth_fault(spec, "spec")
    assert fault is not None
    assert fault.startswith("spec.podTemplate[0].a.a.a")
    assert "remove it" in fault
    assert depth_fault({"a": json.loads(nested(DEEPEST_SPEC - 1))}, "spec") is None
