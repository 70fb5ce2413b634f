"""The reference of the resource has every field of the CRD, with its type and default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference.md").read_text("utf-8")


def tables() -> dict[str, list[tuple[str, ...]]]:
    """The rows below each heading that names a field."""
    sections = re.split(r"^## `([\w.]+)`$", PAGE, flags=re.MULTILINE)[1:]
    rows = {
        name: re.findall(r"^\| `.*\|$", text, re.MULTILINE)
        for name, text in zip(sections[::2], sections[1::2], strict=True)
    }
    return {
        name: [tuple(cell.strip() for cell in row[1:-1].split("|")) for row in found] for name, found in rows.items()
    }


def schema(name: str) -> dict[str, Any]:
    crd = yaml.safe_load((ROOT / "crds" / "streamsapps.yaml").read_text("utf-8"))
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in name.split("."):
        found = found["properties"][part]
    return found


def fields(section: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, ...]]:
    """Field, type and default; a reference to another object is described in its own section."""
    for name, field in section["properties"].items():
        required = "required" if name in section.get("required", ()) else ""
        default = field.get("default", {})
        shown = str(default).lower() if isinstance(default, bool) else default
        yield f"`{prefix}{name}`", type_of(field), required or (f"`{shown}`" if default != {} else "")
        if name.endswith("Ref"):
            yield from fields(field, f"{name}.")


def type_of(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "x-kubernetes-int-or-string" in field:
        return "`auto` or integer ≥ 1"
    if "type" not in field:
        return f"`{field['default']}` or mapping"
    words = {"string": "text", "boolean": "true or false", "array": "list", "object": "mapping"}
    least = f" ≥ {field['minimum']}" if "minimum" in field else ""
    return f"{words.get(field['type'], field['type'])}{least}"


@pytest.mark.parametrize("name", [name for name in tables() if name.startswith("spec") and tables()[name]])
def test_every_field_of_the_spec_is_told_with_type_and_default(name: str) -> None:
    assert [row[:3] for row in tables()[name]] == list(fields(schema(name)))


def fields_of_status(section: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Field and type; a field with a section of its own is described there."""
    for name, field in section["properties"].items():
        yield f"`{prefix}{name}`", type_of(field)
        items = field.get("items", field)
        if "properties" in items and f"status.{prefix}{name}" not in tables():
            yield from fields_of_status(items, f"{prefix}{name}{'[]' if 'items' in field else ''}.")


@pytest.mark.parametrize("name", ["status", "status.rollout", "status.bootstrap"])
def test_every_field_of_the_status_is_told(name: str) -> None:
    assert [row[:2] for row in tables()[name]] == list(fields_of_status(schema(name)))


def test_every_section_of_the_spec_has_a_table() -> None:
    sections = {f"spec.{name}" for name, field in schema("spec")["properties"].items() if "properties" in field}

    assert sections == {name for name, rows in tables().items() if name.startswith("spec.") and rows}


def test_every_field_is_explained() -> None:
    assert [row for rows in tables().values() for row in rows if not row[-1]] == []
