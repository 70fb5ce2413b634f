"""Makes the structures of the manifest's fields that are settings of a configuration: ``streamsapp.manifest.sections``.

Called by ``make definitions`` before anything of the manifest is imported, as that imports this module. Pure.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

from streamsapp.config import RemoteStateConfig, StreamsConfig
from streamsapp.config.setting import AUTO, MOST, MOST_RECORDS, SAME, ManifestField, Setting, defined_settings

PATH = "runtime/streamsapp/manifest/sections.py"
#: Sections of ``spec`` with settings. Fields that are no settings are in ``streamsapp.manifest.model``, beside them.
SECTIONS = ("kafka", "processing", "errors", "topics", "remoteState")
#: The width of a line of a text.
_WIDTH = 90
_BOUNDS = {MOST: "MOST", MOST_RECORDS: "MOST_RECORDS"}

_HEAD = '''"""Fields of the manifest that are settings of the configuration, made by ``make definitions``: change
``StreamsConfig`` or ``RemoteStateConfig`` instead. Plain data.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from streamsapp.config.setting import MOST, MOST_RECORDS
from streamsapp.declared.options import Name
from streamsapp.manifest.types import (
    Doc, Fields, HandlerName, Optimizations, PartitionGrouperName, Positive, ProcessorWrapperName, Properties,
    RemoteUrl, SchedulingEntry, SerdeName, Tags, TimestampExtractorName,
)
'''


def files(root: Path) -> Iterator[tuple[str, str]]:
    """Returns the module, before it is laid out."""
    yield PATH, _HEAD + "".join(map(_section, SECTIONS))


def _section(name: str) -> str:
    lines = "".join(_field(*each) for each in _settings() if each[2].path.startswith(f"{name}."))
    title = name[0].upper() + name[1:]
    return f'\n\nclass {title}Settings(Fields, frozen=True, kw_only=True):\n    """Of ``spec.{name}``."""\n\n{lines}'


def _settings() -> Iterator[tuple[Field[Any], Setting, ManifestField]]:
    for configuration in (StreamsConfig, RemoteStateConfig):
        for field, setting in defined_settings(configuration):
            if setting.field is not None:
                yield field, setting, setting.field


def _field(field: Field[Any], setting: Setting, at: ManifestField) -> str:
    name = re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", at.path.rpartition(".")[2])
    default = _default(field) if at.default is SAME else at.default
    none = " | None" if default is None else ""
    value = "" if default is MISSING else f" = {default!r}"
    return f"    {name}: Annotated[{_type(field, setting, at)}{none}, Doc({_text(setting.meaning)})]{value}\n"


def _default(field: Field[Any]) -> object:
    """The default as the manifest has it: nothing where the runtime chooses, and for what has no text."""
    if field.default is AUTO:
        return None
    return field.default if field.default_factory is MISSING else field.default_factory()


def _type(field: Field[Any], setting: Setting, at: ManifestField) -> str:
    if at.type is not None:
        return at.type
    if setting.choices:
        return f"Literal[{', '.join(map(repr, setting.choices))}]"
    if setting.least is not None:
        return f"Annotated[int, Meta(ge={setting.least}, le={_BOUNDS.get(setting.most, setting.most)})]"
    return str(field.type).removesuffix(" | None")


def _text(meaning: str) -> str:
    """Returns a text as source, in pieces that fit into lines."""
    lines = textwrap.wrap(meaning, _WIDTH, break_long_words=False, break_on_hyphens=False, drop_whitespace=True)
    return " ".join(f"{line + ' ' * (line is not lines[-1])!r}" for line in lines)
