"""Functions that are built in, as steps use them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from streamsapp.declared import roles
from streamsapp.declared.build_steps import build_steps
from streamsapp.declared.roles import Role
from streamsapp.testing import TopologyTestDriver


class NoCode:
    """There is none to be found."""

    def find(self, name: str, field: str) -> Any:
        raise AssertionError(f"{field} asked for {name}")

    def run(self, function: Callable[[], Any], doing: str, field: str) -> Any:
        return function()


JSON, TEXT = roles.SERDE.built("json"), roles.SERDE.built("string")


def through(operation: str, reference: object, values: list[Any]) -> list[Any]:
    """Key and value of what becomes of values under the key ``k``."""
    steps = [
        {"stream": {"topic": "in", "keySerde": "string", "valueSerde": "json"}},
        {operation: reference},
        {"to": {"topic": "out", "keySerde": "json", "valueSerde": "json"}},
    ]
    with TopologyTestDriver(build_steps(steps, "steps", NoCode())) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_key_values([("k", value) for value in values])
        return driver.create_output_topic("out", JSON, JSON).read_key_values()


@pytest.mark.parametrize(
    ("operation", "reference", "given", "values"),
    [
        ("mapValues", "lower", ["A b", None], ["a b", None]),
        ("mapValues", "upper", ["A b", None], ["A B", None]),
        ("mapValues", "strip", [" a ", None], ["a", None]),
        ("mapValues", {"field": "x"}, [{"x": 1}, {}, None], [1, None, None]),
        ("flatMapValues", "words", ["To be, or", None], ["To", "be", "or"]),
        ("flatMapValues", {"split": ", "}, ["a, b,c", None], ["a", "b,c"]),
        ("flatMapValues", {"field": "x"}, [{"x": [1, 2]}, {}, None], [1, 2]),
        ("filter", "hasValue", ["a", None], ["a"]),
        ("filterNot", "hasValue", ["a", None], [None]),
        ("filter", "hasKey", ["a"], ["a"]),
        ("filter", {"contains": "an"}, ["banana", "b", None], ["banana"]),
    ],
)
def test_gives_the_values(operation: str, reference: object, given: list[Any], values: list[Any]) -> None:
    assert through(operation, reference, given) == [("k", value) for value in values]


@pytest.mark.parametrize(
    ("reference", "given", "keys"), [("value", ["a"], ["a"]), ({"field": "x"}, [{"x": 1}, {}], [1, None])]
)
def test_gives_the_keys(reference: object, given: list[Any], keys: list[Any]) -> None:
    assert through("selectKey", reference, given) == list(zip(keys, given, strict=True))


@pytest.mark.parametrize(
    ("reducer", "results"),
    [("sum", [5, 7, 10]), ("min", [5, 2, 2]), ("max", [5, 5, 5]), ("first", [5, 5, 5]), ("last", [5, 2, 3])],
)
def test_reduces(reducer: str, results: list[int]) -> None:
    steps = [
        {"stream": {"topic": "in", "keySerde": "string", "valueSerde": "long"}},
        {"groupByKey": None},
        {"reduce": reducer},
        {"toStream": None},
        {"to": "out"},
    ]
    long = roles.SERDE.built("long")
    with TopologyTestDriver(build_steps(steps, "steps", NoCode())) as driver:
        driver.create_input_topic("in", TEXT, long).pipe_key_values([("k", 5), ("k", 2), ("k", 3)])
        read = driver.create_output_topic("out", TEXT, long).read_key_values()
    assert read == [("k", result) for result in results]


def test_sum_and_difference_keep_the_groups_of_a_table_right() -> None:
    code = SimpleNamespace(
        find=lambda name, field: lambda key, value: ("all", value), run=lambda function, *_: function()
    )
    steps = [
        {"table": {"topic": "in", "keySerde": "string", "valueSerde": "long"}},
        {"groupBy": {"selector": "app:into_one", "keySerde": "string", "valueSerde": "long"}},
        {"reduce": {"adder": "sum", "subtractor": "difference", "store": "totals"}},
    ]
    long = roles.SERDE.built("long")
    with TopologyTestDriver(build_steps(steps, "steps", code)) as driver:
        driver.create_input_topic("in", TEXT, long).pipe_key_values([("a", 5), ("b", 2), ("a", 4), ("b", None)])
        assert driver.get_key_value_store("totals").get("all") == 4


def test_a_field_of_what_is_no_object_says_what_to_declare() -> None:
    with pytest.raises(TypeError, match="field 'x' of a str: expected an object; declare valueSerde: json"):
        roles.VALUE_MAPPER.built({"field": "x"})("text")


ROLES = [role for role in vars(roles).values() if isinstance(role, Role)]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.what)
def test_whatever_is_built_in_is_right_for_its_role(role: Role) -> None:
    references: list[Any] = [*role.built_in, *({name: "text"} for name in role.made_from)]
    assert [role.fault(reference) for reference in references] == [None] * len(references)
    assert all(role.built(reference) is not None for reference in references)
