"""Reads YAML as Kubernetes does: a document is what JSON can say. Everything else in YAML is refused with its line.

Called by code that reads a manifest from a file. The text is untrusted: it is read event by event, so that neither
depth nor aliases of aliases cost anything before they are refused. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from streamsapp.errors import ManifestError
from streamsapp.manifest.document_checks import MAX_BYTES, MAX_DEPTH, MAX_VALUES
from streamsapp.manifest.yaml_scalars import plain_key, plain_scalar

#: libyaml where PyYAML was built with it; both are iterative.
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG = "tag:yaml.org,2002:"
_MERGE = object()


def parse_yaml(text: str) -> object:
    """The only document of a YAML text; raises ``ManifestError`` with the line of the fault."""
    if len(text) > MAX_BYTES:
        raise ManifestError([f"the document: has more than {MAX_BYTES} bytes; divide it, or put code into the image"])
    reader = _Reader()
    try:
        for event in yaml.parse(text, Loader=_PARSER):
            reader.take(event)
    except yaml.YAMLError as error:
        raise ManifestError([_yaml_fault(error, text)]) from error
    documents = [document for document in reader.documents if document is not None]
    if len(documents) != 1:
        raise ManifestError([f"the document: expected one StreamsApp, found {len(documents)} documents"])
    return documents[0]


def _yaml_fault(error: yaml.YAMLError, text: str) -> str:
    if isinstance(error, yaml.reader.ReaderError) and isinstance(error.character, int):
        line = text.count("\n", 0, error.position) + 1
        return f"line {line}: has the character U+{error.character:04X}, which YAML does not allow; remove it"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem or 'not YAML'}; correct the YAML there"
    return f"the document: is not YAML: {error}"


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come. ``values`` counts what it stands for, aliases written out."""

    made: dict[str, Any] | list[Any]
    anchor: str | None
    values: int = 1
    key: Any = None
    has_key: bool = False
    merged: list[Mapping[str, Any]] = field(default_factory=list)


class _Reader:
    """Makes values of events."""

    def __init__(self) -> None:
        self.documents: list[object] = []
        self._open: list[_Open] = []
        #: Of each anchor the value and how many values it stands for.
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0

    def take(self, event: Any) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._anchors.clear()
            case yaml.ScalarEvent():
                self._give(event, _scalar(event), 1, event.anchor)
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    _refuse(event, f"there is no anchor {event.anchor!r} before it; write the value out")
                self._give(event, *self._anchors[event.anchor], None)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                _refuse_tag(event)
                if len(self._open) >= MAX_DEPTH:
                    _refuse(event, f"is nested more than {MAX_DEPTH} levels deep; a manifest needs no more")
                made: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
                self._open.append(_Open(made, event.anchor))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                ended = self._open.pop()
                if isinstance(ended.made, dict):
                    _merge(ended.made, ended.merged)
                self._give(event, ended.made, ended.values, ended.anchor)

    def _give(self, event: Any, value: Any, values: int, anchor: str | None) -> None:
        """A value is complete: it belongs to what is open."""
        if anchor is not None:
            self._anchors[anchor] = (value, values)
        if not self._open:
            self.documents.append(value)
            return
        inside = self._open[-1]
        inside.values += values
        if inside.values > MAX_VALUES:
            _refuse(event, f"stands for more than {MAX_VALUES} values, aliases written out; use fewer of them")
        if isinstance(inside.made, list):
            inside.made.append(value)
        elif not inside.has_key:
            inside.key, inside.has_key = _key(event, value, inside.made), True
        else:
            inside.has_key = False
            if inside.key is _MERGE:
                inside.merged += _mappings(event, value)
            else:
                inside.made[inside.key] = value


def _key(event: Any, value: Any, mapping: Mapping[str, Any]) -> Any:
    """The key of an entry. Numbers and truth values are taken for text, as ``kubectl`` does."""
    if _is_plain(event) and event.value == "<<":
        return _MERGE
    key = plain_key(event.value) if _is_plain(event) else value if isinstance(value, str) else None
    if key is None:
        _refuse(event, "a key must be text; put it in quotes")
    if key in mapping:
        _refuse(event, f"the key {key!r} is given twice")
    return key


def _mappings(event: Any, value: Any) -> list[Mapping[str, Any]]:
    """Returns the mappings of ``<<``: one mapping, or a list of them."""
    given = value if isinstance(value, list) else [value]
    for each in given:
        if not isinstance(each, dict):
            _refuse(event, "<< merges mappings only; write the fields out")
    return given


def _merge(mapping: dict[str, Any], merged: list[Mapping[str, Any]]) -> None:
    """Merges mappings: keys that are written in the mapping win, then those of the first that was merged."""
    for other in merged:
        for key, value in other.items():
            mapping.setdefault(key, value)


def _is_plain(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.tag is None and bool(event.implicit[0])


def _scalar(event: yaml.ScalarEvent) -> Any:
    if not _is_plain(event):
        _refuse_tag(event)
        return event.value
    try:
        return plain_scalar(event.value)
    except ValueError:
        _refuse(event, f"{event.value[:40]!r} is no number that can be read; put it in quotes if it is text")


def _refuse_tag(event: Any) -> None:
    if event.tag not in (None, "!", f"{_TAG}str", f"{_TAG}map", f"{_TAG}seq"):
        tag = event.tag.replace(_TAG, "!!")
        _refuse(event, f"the tag {tag[:40]} has no meaning in a manifest; leave it out")


def _refuse(event: Any, problem: str) -> NoReturn:
    raise ManifestError([f"line {event.start_mark.line + 1}: {problem}"])
