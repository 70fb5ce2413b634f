"""Makes the types in ``streamsapp.brokers.messages`` from Kafka's own schemas, which are in the jar of its clients.

Run by ``make messages`` after a message was added below, or a newer version of Kafka is compared against. Messages that
are written by hand where streamsapp runs have types as well, in ``tests/support/messages_by_hand``: they hold both
against each other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from streamsapp.brokers.codec import NEVER
from streamsapp.local.jars import KAFKA_VERSION, kafka_jars

ROOT = Path(__file__).resolve().parent.parent
MESSAGES = Path("runtime/streamsapp/brokers/messages")
BY_HAND = Path("tests/support/messages_by_hand")

#: The messages that are made, each with the greatest version that is known: a newer one may mean something else.
RUNNING = {
    "AddOffsetsToTxn": 4,
    "AddPartitionsToTxn": 3,
    "ApiVersions": 4,
    "ConsumerProtocolAssignment": 3,
    "ConsumerProtocolSubscription": 3,
    "DescribeTransactions": 0,
    "FindCoordinator": 4,
    "InitProducerId": 4,
    "JoinGroup": 9,
    "LeaveGroup": 5,
    "ListGroups": 5,
    "ListOffsets": 7,
    "ListTransactions": 1,
    "Metadata": 13,
    "OffsetCommit": 9,
    "SaslAuthenticate": 2,
    "SaslHandshake": 1,
    "SyncGroup": 5,
}
#: Messages whose types only tests have.
COMPARED = {
    "EndTxn": 5,
    "Fetch": 17,
    "Heartbeat": 4,
    "OffsetFetch": 7,
    "Produce": 12,
    "TxnOffsetCommit": 5,
}

_NUMBERS = {
    "bool": "Bool",
    "int8": "Int8",
    "int16": "Int16",
    "uint16": "UInt16",
    "int32": "Int32",
    "int64": "Int64",
    "float64": "Float64",
    "uuid": "Uuid",
}
#: Names of the codec that modules import, in ruff's order.
_IMPORTED = (
    "NO_UUID", "Asking", "Bool", "Float64", "In", "Int8", "Int16", "Int32", "Int64", "Structure", "UInt16", "Uuid",
    "Whole",
)  # fmt: skip
_SIZES = {"string": "str", "bytes": "bytes", "records": "bytes"}
_DEFAULTS = {"bool": "False", "string": '""', "bytes": 'b""', "records": 'b""', "uuid": "NO_UUID", "float64": "0.0"}

Schema = Mapping[str, Any]


class UnknownSchemaError(Exception):
    """A schema has something that the codec does not know."""


class Field(NamedTuple):
    """One field of a class."""

    name: str
    hint: str
    default: str
    tag: int | None

    def __str__(self) -> str:
        return f"{self.name}: {self.hint} = {self.default}"


def modules() -> Iterator[tuple[Path, str]]:
    """The files that are made, relative to this repository, each with its text."""
    [jar] = kafka_jars().glob("kafka-clients-*.jar")
    with ZipFile(jar) as archive:
        for folder, messages in ((MESSAGES, RUNNING), (BY_HAND, COMPARED)):
            for name, greatest in messages.items():
                yield folder / f"{_snake(name)}.py", _formatted(module(_schemas(archive, name), greatest))


def _schemas(archive: ZipFile, name: str) -> list[Schema]:
    """The schemas of an answer and of its request, or of data within a message."""
    names = set(archive.namelist())
    kinds = [each for each in (f"{name}Response", f"{name}Request", name) if f"common/message/{each}.json" in names]
    return [_schema(archive.read(f"common/message/{each}.json").decode()) for each in kinds]


def _schema(text: str) -> Schema:
    found: Schema = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    return found


def module(schemas: Sequence[Schema], greatest: int) -> str:
    """The text of a module. Raises ``UnknownSchemaError``."""
    classes: dict[str, str] = {}
    for schema in schemas:
        for name, text in _Classes(schema, greatest).made():
            if classes.setdefault(name, text) != text:
                raise UnknownSchemaError(f"there are two classes {name}")
    body = "\n\n\n".join(classes.values())
    header = (
        f"Pure types, made by tools/kafka_messages.py from the schemas of Kafka {KAFKA_VERSION}. Not to be changed."
    )
    copied = "# ruff: noqa: RUF012 - a structure's default that may be changed is copied\n\n" if "= []" in body else ""
    return f'"""{header}"""\n\n{copied}from __future__ import annotations\n\n{_imports(body)}\n\n\n{body}\n'


def _imports(body: str) -> str:
    used = [each for each in _IMPORTED if re.search(rf"\b{each}\b", body)]
    typing = [each for each in ("Annotated", "ClassVar") if re.search(rf"\b{each}\b", body)]
    made = "from msgspec import field\n\n" if "field(" in body else ""
    return f"from typing import {', '.join(typing)}\n\n{made}from streamsapp.brokers.codec import {', '.join(used)}"


class _Classes:
    """The classes of one schema, up to a version."""

    def __init__(self, schema: Schema, greatest: int) -> None:
        self._schema = schema
        self._known = _versions(schema["validVersions"])[0], greatest
        self._common = {each["name"]: each for each in schema.get("commonStructs", ())}

    def made(self) -> Iterator[tuple[str, str]]:
        """Each class's name and text, the ones that others are made of first."""
        schema, name = self._schema, self._schema["name"]
        last = _versions(schema["validVersions"])[1]
        compact = _versions(schema["flexibleVersions"])[0]
        if last < self._known[1]:
            raise UnknownSchemaError(f"{name} has versions up to {last}, and not {self._known[1]}")
        yield from self._parts(schema["fields"], self._known)
        lines = [f"VERSIONS: ClassVar = {self._known}", f"FIRST_COMPACT: ClassVar = {compact}"]
        above = "Whole"
        if schema["type"] == "request":
            answer = name.removesuffix("Request") + "Response"
            above = f"Asking[{answer}]"
            lines += [f"API_KEY: ClassVar = {schema['apiKey']}", f"ANSWER: ClassVar = {answer}"]
        yield name, _class(name, above, [*lines, ""], self._fields(schema["fields"], self._known))

    def _parts(self, fields: Sequence[Schema], within: tuple[int, int]) -> Iterator[tuple[str, str]]:
        for field in self._present(fields):
            kind = field["type"].removeprefix("[]")
            inner = field.get("fields") or self._common.get(kind, {}).get("fields")
            if inner:
                present = _both(within, _versions(field["versions"]))
                yield from self._parts(inner, present)
                yield kind, _class(kind, "Structure", [], self._fields(inner, present))

    def _present(self, fields: Sequence[Schema]) -> list[Schema]:
        """The fields that any version has which is known."""
        return [each for each in fields if _versions(each["versions"])[0] <= self._known[1]]

    def _fields(self, fields: Sequence[Schema], within: tuple[int, int]) -> list[Field]:
        """The fields of a class that ``within`` these versions is written; tagged ones last, as the wire has them."""
        made = [self._field(each, within) for each in self._present(fields)]
        return sorted(made, key=lambda each: -1 if each.tag is None else each.tag)

    def _field(self, field: Schema, within: tuple[int, int]) -> Field:
        kind = field["type"].removeprefix("[]")
        array, part = kind != field["type"], kind not in _NUMBERS and kind not in _SIZES
        hint = _NUMBERS.get(kind) or _SIZES.get(kind) or kind
        hint = f"list[{hint}]" if array else hint
        nullable = _versions(field.get("nullableVersions", "none"))[0]
        default = self._default(field, kind, array=array, part=part)
        if nullable <= self._known[1] or default == "None":
            if part and not array:
                raise UnknownSchemaError(f"{field['name']} of {self._schema['name']} is a structure that may be none")
            hint = f"{hint} | None"
        return Field(_snake(field["name"]), self._annotated(field, hint, nullable, within), default, field.get("tag"))

    def _default(self, field: Schema, kind: str, *, array: bool, part: bool) -> str:
        told = field.get("default")
        if told == "null":
            return "None"
        if array:
            return "[]"
        if part:
            return f"field(default_factory={kind})"
        if told is None:
            return _DEFAULTS.get(kind, "0")
        if kind == "bool":
            return str(told).capitalize()
        return json.dumps(told) if kind == "string" else str(int(str(told), 0))

    def _annotated(self, field: Schema, hint: str, nullable: int, within: tuple[int, int]) -> str:
        if "flexibleVersions" in field or field.get("taggedVersions", field["versions"]) != field["versions"]:
            raise UnknownSchemaError(f"{field['name']} of {self._schema['name']} is otherwise in some versions")
        first, last = _versions(field["versions"])
        told = [str(first)] if first else []
        if last < self._known[1]:
            told.append(f"last={last}")
        if nullable <= self._known[1]:
            told.append(f"nullable={nullable}")
        if "tag" in field:
            told.append(f"tag={field['tag']}")
        if not field.get("ignorable") and _both(within, (first, last)) != within:
            told.append("ignorable=False")
        return f"Annotated[{hint}, In({', '.join(told)})]" if told else hint


def _both(some: tuple[int, int], others: tuple[int, int]) -> tuple[int, int]:
    """The versions that are in both ranges."""
    return max(some[0], others[0]), min(some[1], others[1])


def _class(name: str, above: str, lines: Sequence[str], fields: Sequence[Field]) -> str:
    body = [*lines, *map(str, fields)]
    return "\n".join([f"class {name}({above}):", *(f"    {each}" if each else "" for each in body or ["pass"])])


def _versions(text: str) -> tuple[int, int]:
    if text == "none":
        return NEVER, NEVER
    first, dash, last = text.partition("-")
    return int(first.rstrip("+")), int(last) if dash else NEVER if text.endswith("+") else int(first)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff", "format", "--config", str(ROOT / "pyproject.toml"), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Write the files anew."""
    for path, text in modules():
        (ROOT / path).write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
