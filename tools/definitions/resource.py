"""Makes the StreamsApp resource of the structures of manifest and status, with what only a cluster checks:
``outline.yaml`` beside this has the rest of the resource, and such rules by field.

Called by ``make definitions``. Pure but for reading the outline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from inspect import get_annotations
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec import Meta, Struct

from streamsapp.config.setting import MOST, MOST_RECORDS
from streamsapp.declared.roles import Role
from streamsapp.manifest.model import Spec
from streamsapp.manifest.types import Doc
from streamsapp_operator.model.resource_status import MEMORY, shown_fields
from streamsapp_operator.model.status import AppStatus

PATH = "crds/streamsapps.yaml"
_OUTLINE = Path(__file__).with_name("outline.yaml")
_HEAD = """\
# The StreamsApp resource, made by `make definitions`: spec of streamsapp.manifest, status of the operator's model, the
# rest and what a schema alone cannot say (x-kubernetes-validations) of tools/definitions/outline.yaml. Tests try every
# rule on a real API server.
"""

_MEMORY = "the operator's own memory, from which it goes on after a restart; its fields may change with any release."
_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_PLAIN: Mapping[Any, str] = {str: "string", bool: "boolean", float: "number"}
#: For the status, which only the operator writes.
_WRITTEN: Mapping[Any, Mapping[str, str]] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int64"},
    datetime: {"type": "string", "format": "date-time"},
}
#: Rules are weighed by what they may be applied to: a text without a pattern has an end.
_LONGEST = 1024
_CODE = "^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*$"

Schema = dict[str, Any]


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def files(root: Path) -> Iterator[tuple[str, str]]:
    """Returns the resource."""
    definition, rules = yaml.safe_load_all(_OUTLINE.read_text("utf-8"))
    properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"] |= _Schemas(rules).of_structure(Spec)
    properties["status"] |= _StatusSchemas(rules).of_structure(AppStatus)
    text = yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    yield PATH, _HEAD + text


def meanings(structure: type[Struct]) -> dict[str, str]:
    """Returns the meaning of each field, by its name in a manifest."""
    hints = get_type_hints(structure, include_extras=True)
    return {field.encode_name: _meaning(hints[field.name]) for field in shown_fields(structure)}


def _meaning(hint: Any) -> str:
    return next(each.meaning for each in hint.__metadata__ if isinstance(each, Doc))


class _Schemas:
    """The schemas of types; a rule is looked up by ``Structure.field``, where that is declared, or by its structure."""

    def __init__(self, rules: Mapping[str, Schema]) -> None:
        self._rules = rules

    def of_structure(self, structure: type[Struct]) -> Schema:
        hints = get_type_hints(structure, include_extras=True)
        fields = shown_fields(structure)
        required = [field.encode_name for field in fields if field.required]
        return {
            "type": "object",
            **({"required": required} if required else {}),
            **self._rules.get(structure.__name__, {}),
            "properties": {field.encode_name: self._of_field(structure, field, hints[field.name]) for field in fields},
        }

    def _of_field(self, structure: type[Struct], field: msgspec.structs.FieldInfo, hint: Any) -> Schema:
        owner = next(each for each in structure.__mro__ if field.name in get_annotations(each))
        schema = self._of(hint)
        if isinstance(field.default, Struct):
            schema["default"] = {}
        elif field.default not in (None, msgspec.NODEFAULT):
            schema["default"] = field.default
        schema |= self._rules.get(f"{owner.__name__}.{field.encode_name}", {})
        whole = {"description": _sentence(_meaning(hint))} | schema
        return {key: value for key, value in whole.items() if value is not None}

    def _of(self, hint: Any) -> Schema:
        """Returns the schema of a type: for a type that has several, what a schema can say of them."""
        metas = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Meta)]
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if kind is Any:
            return dict(_ANYTHING)
        if isinstance(kind, type) and issubclass(kind, Struct):
            return self.of_structure(kind)
        match get_origin(kind):
            case origin if origin is Literal:
                return {"type": "string", "enum": [*get_args(kind)]}
            case origin if origin is dict:
                return {"type": "object", **self._of_values(get_args(kind)[1])}
            case origin if origin in (list, tuple):
                return {"type": "array", "items": self._of(get_args(kind)[0])}
            case None:
                return _number(metas) if kind is int else _text(metas) if kind is str else {"type": _PLAIN[kind]}
        return self._of_union([each for each in get_args(kind) if each is not NoneType])

    def _of_values(self, kind: Any) -> Schema:
        values = self._of(kind)
        return values if kind is Any else {"additionalProperties": values}

    def _of_union(self, kinds: list[Any]) -> Schema:
        if len(kinds) == 1:
            return self._of(kinds[0])
        free = any(kind is bool or get_origin(kind) is dict for kind in kinds)
        return dict(_ANYTHING) if free else {"x-kubernetes-int-or-string": True}


class _StatusSchemas(_Schemas):
    """The schemas of what the operator writes: a value that it does not know is null, and nothing is filled in. An
    operator that is newer than the resource keeps its memory."""

    def of_structure(self, structure: type[Struct]) -> Schema:
        schema = super().of_structure(structure) | _ANYTHING
        if structure is AppStatus:
            schema["properties"][MEMORY] = {"description": _MEMORY, "type": "object"} | _ANYTHING
        return schema

    def _of_field(self, structure: type[Struct], field: msgspec.structs.FieldInfo, hint: Any) -> Schema:
        schema = super()._of_field(structure, field, hint)
        schema.pop("default", None)
        return schema

    def _of(self, hint: Any) -> Schema:
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if kind in _WRITTEN:
            return dict(_WRITTEN[kind])
        return super()._of(kind)

    def _of_union(self, kinds: list[Any]) -> Schema:
        (kind,) = kinds
        return self._of(kind) | {"nullable": True}


def _number(metas: list[Meta]) -> Schema:
    (bounds,) = metas
    most = {} if bounds.le in (MOST, MOST_RECORDS) else {"maximum": bounds.le}
    is_long = bounds.le is not None and bounds.le > MOST
    return {"type": "integer", "format": "int64" if is_long else "int32", "minimum": bounds.ge} | most


def _text(metas: list[Meta]) -> Schema:
    found: Schema = {"type": "string"}
    for meta in metas:
        role = (meta.extra or {}).get("role")
        found |= {} if meta.pattern is None else {"pattern": meta.pattern.replace(r"\Z", "$")}
        found |= {} if meta.min_length is None else {"minLength": meta.min_length}
        found |= {} if role is None else _rule(role)
    return found if "pattern" in found else {"maxLength": _LONGEST} | found


def _rule(role: Role) -> Schema:
    """Returns the rule of a text that names something built in, or code."""
    names = f"self in {[*role.built_in]} || " if role.built_in else ""
    message = f"expected {role.what} as module:attribute{' or a name' if role.built_in else ''}"
    rule = {
        "rule": f"{names}self.matches('{_CODE}')",
        "message": message,
        "messageExpression": f'"{message}, got \'" + self + "\'"',
    }
    return {"x-kubernetes-validations": [rule]}


def _sentence(meaning: str) -> str:
    """Returns a meaning as ``kubectl explain`` shows it, without Markdown."""
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", meaning)
    plain = plain if plain.startswith("`") else plain[0].upper() + plain[1:]
    return plain.replace("`", "") + ("" if plain.endswith((".", ")")) else ".")
