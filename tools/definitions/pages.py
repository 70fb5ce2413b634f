"""Makes the tables of the documentation that list what is defined elsewhere.

A page says where one is made: by a comment before it, which names what it lists. Called by ``make definitions``. Pure
but for reading the pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

from streamsapp.config import RemoteStateConfig, StreamsConfig
from streamsapp.config.setting import Setting, defined_settings

Row = tuple[str, ...]

#: The comment before a table, and the table.
_TABLE = re.compile(r"(<!-- made by `make definitions`: ([\w.]+) -->\n\n?)(?:\|.*\n)*")


def files(root: Path) -> Iterator[tuple[str, str]]:
    """Returns the pages with their tables."""
    for path, tables in _PAGES.items():
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


_PAGES: Mapping[str, Mapping[str, Callable[[], Iterable[Row]]]] = {
    "docs/configuration.md": {
        "StreamsConfig": lambda: _settings(StreamsConfig),
        "RemoteStateConfig": lambda: _settings(RemoteStateConfig),
    },
}
