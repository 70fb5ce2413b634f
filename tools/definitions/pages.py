"""Makes the tables of the documentation that list what is defined elsewhere.

A page says where one is made: by a comment before it, which names what it lists. Called by ``make definitions``. Pure
but for reading the pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec import Struct

from definitions.resource import PATH as RESOURCE, Schema, meanings
from streamsapp.config import RemoteStateConfig, StreamsConfig
from streamsapp.config.setting import Setting, defined_settings
from streamsapp.declared.operations import OPERATIONS, Operation
from streamsapp.declared.options import MATERIALIZED, MATERIALIZED_WINDOWS, NAMED
from streamsapp.declared.roles import PROCESSOR, role_of
from streamsapp.manifest.model import Spec
from streamsapp_operator.model.resource_status import MEMORY
from streamsapp_operator.model.status import AppStatus

Row = tuple[str, ...]

#: Sections of ``status`` with tables of their own.
_APART = ("rollout", "bootstrap")

#: The comment before a table, and the table.
_TABLE = re.compile(r"(<!-- made by `make definitions`: ([\w.]+) -->\n\n?)(?:\|.*\n)*")


def files(root: Path) -> Iterator[tuple[str, str]]:
    """Returns the pages with their tables."""
    for path, tables in (_PAGES | {"docs/reference.md": _fields(root)}).items():
        yield path, _with_tables((root / path).read_text("utf-8"), Path(path).name, tables)


def _with_tables(page: str, name: str, tables: Mapping[str, Callable[[], Iterable[Row]]]) -> str:
    def table(found: re.Match[str]) -> str:
        head, *rows = tables[found[2]]()
        lines = [head, ("---",) * len(head), *rows]
        text = "".join(f"| {' | '.join(line)} |\n".replace("  |", " |") for line in lines)
        return found[1] + text.replace("| --- ", "|---").replace(f"]({name}#", "](#")

    return _TABLE.sub(table, page)


def _settings(configuration: Any) -> Iterator[Row]:
    yield "key", "default", "meaning", "manifest"
    for field, setting in defined_settings(configuration):
        at = setting.instead if setting.field is None else f"`{setting.field.path}`"
        yield f"`{field.name}`", _default(field, setting), setting.meaning, at


def _default(field: Field[Any], setting: Setting) -> str:
    if setting.shown is not None:
        return setting.shown
    match field.default:
        case _ if field.default is MISSING:
            return "required" if field.default_factory is MISSING else "none"
        case None | "":
            return "none"
        case bool() | str():
            return f"`{field.default}`"
        case float():
            return f"{field.default:g} s"
        case number:
            return f"{number:,}"


def _fields(root: Path) -> Mapping[str, Callable[[], Iterable[Row]]]:
    """Returns the tables of the resource: of ``spec`` and its sections that are structures, of ``status`` and those of
    its sections that have tables of their own."""
    names = ["spec", *(f"spec.{name}" for name, each in _structures(Spec).items() if name != "podTemplate")]
    tables: dict[str, Callable[[], Iterable[Row]]] = {
        name: partial(_section, name, _schema(root, name)) for name in names
    }
    status = {"status": AppStatus} | {f"status.{name}": _structures(AppStatus)[name] for name in _APART}
    return tables | {name: partial(_status, each, _schema(root, name)) for name, each in status.items()}


def _schema(root: Path, name: str) -> Schema:
    resource = yaml.safe_load((root / RESOURCE).read_text("utf-8"))
    schema = resource["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in name.split("."):
        schema = schema["properties"][part]
    return cast("Schema", schema)


def _section(name: str, schema: Schema) -> Iterator[Row]:
    yield "field", "type", "default", "meaning"
    structure = Spec if name == "spec" else _structures(Spec)[name.removeprefix("spec.")]
    yield from _rows(structure, schema, "", ": [below](#spec{})" if name == "spec" else "")


def _rows(structure: type[Struct], schema: Schema, prefix: str, below: str) -> Iterator[Row]:
    inner = _structures(structure)
    for name, meaning in meanings(structure).items():
        field = schema["properties"][name]
        default = "required" if name in schema.get("required", ()) else _shown(field.get("default", {}))
        has_section = name in inner or name == "podTemplate"
        more = below.format(name.lower()) if has_section else ""
        yield f"`{prefix}{name}`", _type_of(field), default, meaning + more
        if name.endswith("Ref"):
            yield from _rows(inner[name], field, f"{name}.", "")


def _status(structure: type[Struct], schema: Schema) -> Iterator[Row]:
    yield "field", "type", "meaning"
    yield from _status_rows(structure, schema, "")


def _status_rows(structure: type[Struct], schema: Schema, prefix: str) -> Iterator[Row]:
    inner = _structures(structure)
    for name, meaning in meanings(structure).items():
        field = schema["properties"][name]
        more = f": [below](#status{name})" if name in _APART and not prefix else ""
        yield f"`{prefix}{name}`", _type_of(field), meaning + more
        of_each = field.get("items", field)
        if "properties" in of_each and not more:
            yield from _status_rows(inner[name], of_each, f"{prefix}{name}{'[]' if 'items' in field else ''}.")
    if structure is AppStatus:
        memory = schema["properties"][MEMORY]
        yield f"`{MEMORY}`", _type_of(memory), memory["description"].rstrip(".")


def _shown(default: object) -> str:
    text = str(default).lower() if isinstance(default, bool) else default
    return "" if default == {} else f"`{text}`"


def _type_of(field: Schema) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "x-kubernetes-int-or-string" in field:
        return f"`{field['default']}` or integer ≥ 1"
    if "type" not in field:
        return f"`{field['default']}` or mapping"
    words = {"string": "text", "boolean": "true or false", "array": "list", "object": "mapping"}
    least = f" ≥ {field['minimum']}" if "minimum" in field else ""
    return f"{words.get(field['type'], field['type'])}{least}"


def _structures(structure: type[Struct]) -> dict[str, type[Struct]]:
    """Returns the fields that are structures, each with its own."""
    hints = get_type_hints(structure)
    kinds = {
        each.encode_name: next((kind for kind in _kinds(hints[each.name]) if issubclass(kind, Struct)), None)
        for each in msgspec.structs.fields(structure)
    }
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _kinds(hint: Any) -> list[type]:
    """Returns the classes that a type is made of; of a mapping nothing, as its values have no names."""
    if get_origin(hint) is dict:
        return []
    return [hint] if isinstance(hint, type) else [kind for each in get_args(hint) for kind in _kinds(each)]


def _operations() -> Iterator[Row]:
    """Operations whose arguments are functions and numbers; operations with the same fields stand together."""
    yield "operation", "on", "gives", "fields"
    rows: dict[Row, list[str]] = {}
    for kind, operations in OPERATIONS.items():
        for name, operation in operations.items():
            if _only_has_functions_and_numbers(operation):
                gives = operation.gives.value.removeprefix("a ") if operation.gives else ""
                needed = [f"**{operation.written[argument]}**" for argument in operation.arguments]
                options = [text for group, text in _OPTIONS if group in operation.options]
                fields = ", ".join(needed + options)
                rows.setdefault((kind.value.removeprefix("a "), gives, fields), []).append(f"`{name}`")
    for row, names in rows.items():
        yield ", ".join(names), *row


#: The options that such an operation may have, in the order of the page.
_OPTIONS = ((MATERIALIZED, "*kept*"), (MATERIALIZED_WINDOWS, "*kept*, `retentionMs`"), (NAMED, "*name*"))


def _only_has_functions_and_numbers(operation: Operation) -> bool:
    needed = [type_ for type_ in operation.arguments.values() if NoneType not in get_args(type_)]
    plain = [role_of(type_) not in (None, PROCESSOR) or int in get_args(type_) for type_ in needed]
    is_whole = len(needed) == len(operation.arguments) and not (operation.for_other or operation.for_field)
    known = [group for group, _ in _OPTIONS]
    return is_whole and plain != [] and all(plain) and all(each in known for each in operation.options)


_PAGES: dict[str, Mapping[str, Callable[[], Iterable[Row]]]] = {
    "docs/configuration.md": {
        "StreamsConfig": lambda: _settings(StreamsConfig),
        "RemoteStateConfig": lambda: _settings(RemoteStateConfig),
    },
    "docs/declared.md": {"operations": _operations},
}
