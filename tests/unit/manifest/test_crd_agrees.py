"""The CRD says what the typed structures of manifest and status say: the same fields, types, defaults and choices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec import inspect

from streamsapp.manifest.model import Spec
from streamsapp_operator.model.resource_status import MEMORY, shown_fields
from streamsapp_operator.model.status import AppStatus

CRD = Path(__file__).resolve().parents[3] / "crds" / "streamsapps.yaml"

_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_INT_OR_STRING = {"x-kubernetes-int-or-string": True}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    (version,) = yaml.safe_load(CRD.read_text("utf-8"))["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]
    return found


def differences(schema: dict[str, Any], expected: inspect.Type, path: str) -> Iterator[str]:
    """The places where the schema of one field and its type in the structure do not say the same."""
    match expected:
        case inspect.UnionType(types=types):
            yield from _union_differences(schema, types, path)
        case inspect.StructType():
            yield from _struct_differences(schema, expected, path)
        case inspect.Metadata(type=inner):
            yield from differences(schema, inner, path)
        case inspect.DictType(value_type=inspect.AnyType()):
            yield from _unequal(schema, {"type": "object"} | _ANYTHING, path)
        case inspect.DictType(value_type=values):
            yield from _unequal(schema, {"type": "object"}, path)
            yield from differences(schema["additionalProperties"], values, f"{path}.*")
        case inspect.ListType(item_type=items) | inspect.VarTupleType(item_type=items):
            yield from _unequal(schema, {"type": "array"}, path)
            yield from differences(schema["items"], items, f"{path}[]")
        case _:
            yield from _unequal(schema, _plain(expected), path)


def _union_differences(schema: dict[str, Any], types: tuple[inspect.Type, ...], path: str) -> Iterator[str]:
    present = [each for each in types if not isinstance(each, inspect.NoneType)]
    if len(present) == 1:
        yield from differences(schema, present[0], path)
    elif any(isinstance(each, inspect.BoolType | inspect.DictType) for each in present):
        yield from _unequal(schema, _ANYTHING, path)  # a schema has no union but this one, and that of below
    else:
        yield from _unequal(schema, _INT_OR_STRING, path)


def _struct_differences(schema: dict[str, Any], expected: inspect.StructType, path: str) -> Iterator[str]:
    if schema == schema | _ANYTHING and "properties" not in schema:
        return  # kept as it is, whatever it is
    yield from _unequal({key: schema[key] for key in schema.keys() - _ANYTHING.keys()}, {"type": "object"}, path)
    fields = shown(expected)
    if schema["properties"].keys() - {MEMORY} != fields.keys():
        yield f"{path}: fields that only one has: {sorted(schema['properties'].keys() ^ fields.keys())}"
    required = {name for name, field in fields.items() if field.required}
    if set(schema.get("required", ())) != required:
        yield f"{path}: required: {sorted(schema.get('required', ()))}, but {sorted(required)}"
    for name in fields.keys() & schema["properties"].keys():
        yield from differences(schema["properties"][name], fields[name].type, f"{path}.{name}")


def shown(structure: inspect.StructType) -> dict[str, inspect.Field]:
    """The fields that stand in the resource where the structure does: the operator's memory is elsewhere."""
    names = {field.encode_name for field in shown_fields(structure.cls)}
    return {field.encode_name: field for field in structure.fields if field.encode_name in names}


def _plain(expected: inspect.Type) -> dict[str, Any]:
    match expected:
        case inspect.IntType(ge=least):
            return {"type": "integer"} | ({} if least is None else {"minimum": least})
        case inspect.StrType(min_length=shortest):
            return {"type": "string"} | ({} if shortest is None else {"minLength": shortest})
        case inspect.LiteralType(values=values):
            return {"type": "string", "enum": sorted(values)}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.FloatType():
            return {"type": "number"}
        case inspect.AnyType():
            return _ANYTHING
        case _:
            raise AssertionError(f"the CRD cannot say {expected}")


def _unequal(schema: dict[str, Any], expected: dict[str, Any], path: str) -> Iterator[str]:
    keys = {"type", "enum", "minimum", "minLength", *_ANYTHING, *_INT_OR_STRING} | expected.keys()
    found = {key: sorted(schema[key]) if key == "enum" else schema[key] for key in keys if key in schema}
    if found != expected:
        yield f"{path}: {found}, but {expected}"


def defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns what the API server makes of an object in which nothing is set."""
    found = {}
    for name, field in schema.get("properties", {}).items():
        if "default" in field:
            found[name] = defaults(field) if field["default"] == {} else field["default"]
    return found


def without_nothing(document: Any) -> Any:
    """``None`` and empty mappings and lists are what an absent field means."""
    if not isinstance(document, dict):
        return document
    reduced = {name: without_nothing(value) for name, value in document.items()}
    return {name: value for name, value in reduced.items() if value not in (None, {}, [])}


def _explicit(value: Any) -> Any:
    """A structure with its defaults written out."""
    if isinstance(value, msgspec.Struct):
        names = {field.name: field.encode_name for field in msgspec.structs.fields(value)}
        return {names[name]: _explicit(each) for name, each in msgspec.structs.asdict(value).items()}
    return value


def test_the_spec_has_the_fields_types_and_choices_of_the_manifest(schema: dict[str, Any]) -> None:
    assert list(differences(schema["spec"], inspect.type_info(Spec), "spec")) == []


def test_what_is_left_out_means_the_same_in_a_cluster_and_in_a_file(schema: dict[str, Any]) -> None:
    spec = msgspec.convert({"topology": {}}, Spec)

    assert without_nothing(defaults(schema["spec"])) == without_nothing(_explicit(spec))


@pytest.mark.parametrize(
    ("section", "given"),
    [("autoscaling", {"maxReplicas": 1}), ("remoteState", {"url": "s3://b/p"}), ("bootstrap", {"image": "spark"})],
)
def test_sections_that_may_be_absent_have_the_manifests_defaults(
    schema: dict[str, Any], section: str, given: dict[str, Any]
) -> None:
    spec = msgspec.convert({"topology": {}, section: given}, Spec)

    expected = without_nothing(_explicit(spec))[section]
    assert without_nothing(defaults(schema["spec"]["properties"][section]) | given) == expected


def test_the_status_keeps_every_field_that_the_operator_writes(schema: dict[str, Any]) -> None:
    assert list(differences(schema["status"], inspect.type_info(AppStatus), "status")) == []


def test_the_operators_memory_is_one_field_that_sorts_last_and_is_kept_as_it_is(schema: dict[str, Any]) -> None:
    memory = schema["status"]["properties"].pop(MEMORY)

    assert memory == memory | _ANYTHING | {"type": "object"}
    assert max(schema["status"]["properties"]) < MEMORY, "kubectl describe sorts fields by name"


def nullable(schema: dict[str, Any], path: str = "status") -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        if field.get("nullable"):
            yield f"{path}.{name}"
        yield from nullable(field.get("items", field), f"{path}.{name}")


def optional(structure: inspect.Type, path: str = "status") -> Iterator[str]:
    match structure:
        case inspect.StructType():
            for name, field in shown(structure).items():
                where = f"{path}.{name}"
                if isinstance(field.type, inspect.UnionType):
                    yield where
                yield from optional(field.type, where)
        case inspect.UnionType(types=types):
            yield from (each for member in types for each in optional(member, path))
        case inspect.VarTupleType(item_type=items):
            yield from optional(items, path)


def test_what_the_operator_may_not_know_may_be_null(schema: dict[str, Any]) -> None:
    assert set(nullable(schema["status"])) == set(optional(inspect.type_info(AppStatus)))


def test_the_printer_columns_are_those_that_are_promised() -> None:
    (version,) = yaml.safe_load(CRD.read_text("utf-8"))["spec"]["versions"]

    columns = {column["name"]: column for column in version["additionalPrinterColumns"]}
    expected = ["READY", "PHASE", "TASKS", "LAG", "STANDBY-LAG", "SAFE"]
    expected += ["PODS", "ROLLOUT", "ENGINE", "LAST-RUN", "NEXT-RUN", "AGE", "MESSAGE"]
    assert list(columns) == expected
    # kubectl shows how long ago a date was, and nothing that can be read for one to come.
    assert [columns[each]["type"] for each in ("LAST-RUN", "NEXT-RUN")] == ["date", "string"]
