"""The definition of a setting: all that a field of a configuration says beside its type and its default.

It stands where the field is, as its metadata. Values are checked by it when a configuration is made, on that thread;
``tools/definitions`` makes of it the field of the manifest, of the resource and of the pages that list settings. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from streamsapp.errors import ConfigError

#: The default of a number that the runtime chooses.
AUTO = -1
#: Numbers of things, and times in milliseconds, which is 24 days: what fits into 32 bits.
MOST = (1 << 31) - 1
#: Numbers of bytes and of records.
MOST_RECORDS = (1 << 63) - 1

_KEY = "setting"
#: Stands for the default of the setting itself.
SAME = object()


@dataclass(frozen=True)
class ManifestField:
    """The field of the manifest that sets a setting."""

    #: Below ``spec``.
    path: str
    #: The type in ``streamsapp.manifest.types`` that its text has; unless set, that of the setting.
    type: str | None = None
    #: As the manifest has it; unless set, that of the setting.
    default: object = SAME


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The meaning of a setting, and the values that it takes."""

    #: For both pages: an English phrase in Markdown.
    meaning: str
    #: Its default in words, where the value does not show it.
    shown: str | None = None
    #: Bounds; of a number only.
    least: int | None = None
    most: int = MOST
    choices: tuple[str, ...] = ()
    field: ManifestField | None = None
    #: How it is set where the manifest has no field.
    instead: str = ""


def setting(meaning: str, *, field: ManifestField | str | None = None, **more: Any) -> Mapping[str, Setting]:
    """Returns the metadata of the field of a configuration. ``more`` are fields of ``Setting``."""
    of_manifest = ManifestField(field) if isinstance(field, str) else field
    return {_KEY: Setting(meaning=meaning, field=of_manifest, **more)}


def defined_settings(configuration: Any) -> Iterator[tuple[Field[Any], Setting]]:
    """Returns the fields of a configuration or of its class, each with its setting."""
    for each in fields(configuration):
        yield each, each.metadata[_KEY]


def check_values(configuration: Any, prefix: str = "") -> None:
    """Raises ``ConfigError``, which names the field, for the first value that is beyond the bounds, or no choice."""
    for each, defined in defined_settings(configuration):
        fault = _fault(defined, getattr(configuration, each.name), each.default)
        if fault is not None:
            raise ConfigError(f"{prefix}{each.name}: {fault}")


def _fault(defined: Setting, value: object, default: object) -> str | None:
    if defined.choices:
        expected = " or ".join(map(repr, defined.choices))
        is_free = default is None and value is None
        return None if is_free or value in defined.choices else f"expected {expected}, got {value!r:.100}"
    if isinstance(default, bool):
        return None if isinstance(value, bool) else f"expected True or False, got {value!r:.100}"
    return None if defined.least is None else _number_fault(defined.least, defined.most, value, default)


def _number_fault(least: int, most: int, value: object, default: object) -> str | None:
    """A number that the runtime chooses, or that there need not be, may be left so."""
    if default in (None, AUTO) and value == default:
        return None
    kinds, words = ((int, float), "seconds") if isinstance(default, float) else ((int,), "an integer")
    if isinstance(value, bool) or not isinstance(value, kinds) or not value >= least:
        return f"expected {words} ≥ {least}, got {value!r:.100}"
    return None if value <= most else f"expected {words} ≤ {most}, got {value!r:.100}"
