"""The types that fields of the manifest have, and the meaning that stands beside them.

Imported by the structures of the manifest; ``sections`` has those fields that are settings of the configuration. Plain
data, read on any thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from streamsapp.config.scheduling import MOST_WEIGHT
from streamsapp.config.setting import MOST, MOST_RECORDS
from streamsapp.config.topology_optimization import optimization_fault
from streamsapp.declared.roles import (
    EXCEPTION_HANDLER,
    PARTITION_GROUPER,
    PROCESSOR_WRAPPER,
    SERDE_NAME,
    TIMESTAMP_EXTRACTOR,
    role_meta,
)
from streamsapp.manifest.application_name import object_name_fault


@dataclass(frozen=True)
class Doc:
    """The meaning of a field, as the reference and ``kubectl explain`` have it: an English phrase in Markdown."""

    meaning: str


class Fields(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Strict: a misspelt field is a fault, never ignored."""


_DURATION = r"^[1-9][0-9]{0,5}(ms|s|m)\Z"
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}


def duration_fault(value: object) -> str | None:
    """Says what is wrong with a text that is to be a duration; ``None`` if nothing is."""
    if isinstance(value, str) and re.match(_DURATION, value):
        return None
    told = repr(value) if isinstance(value, str) else f"{value} without a unit" if isinstance(value, int) else "no text"
    return f"expected a duration in whole ms, s or m, such as 200ms or 2s, got {told[:60]}"


def milliseconds(duration: str) -> int:
    """Returns a duration such as ``500ms``, ``1s`` or ``2m`` in milliseconds."""
    number = duration.rstrip("ms")
    return int(number) * _UNITS_MS[duration[len(number) :]]


Positive: TypeAlias = Annotated[int, Meta(ge=1, le=MOST)]
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=MOST)]
PositiveLong: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_RECORDS)]
NaturalLong: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_RECORDS)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
DurationText: TypeAlias = Annotated[str, Meta(pattern=_DURATION, extra={"check": duration_fault})]
Property: TypeAlias = str | int | float | bool
Properties: TypeAlias = dict[str, Property]
#: ``$(NAME)`` in a value is a variable of the pod's environment.
Tags: TypeAlias = dict[str, Text]
Quantity: TypeAlias = str | int | float

SerdeName: TypeAlias = Annotated[str, role_meta(SERDE_NAME)]
TimestampExtractorName: TypeAlias = Annotated[str, role_meta(TIMESTAMP_EXTRACTOR)]
PartitionGrouperName: TypeAlias = Annotated[str, role_meta(PARTITION_GROUPER)]
ProcessorWrapperName: TypeAlias = Annotated[str, role_meta(PROCESSOR_WRAPPER)]
HandlerName: TypeAlias = Annotated[str, role_meta(EXCEPTION_HANDLER)]
Optimizations: TypeAlias = Annotated[str, Meta(extra={"check": optimization_fault})]
RemoteUrl: TypeAlias = Annotated[
    str, Meta(pattern=r"^(s3|file)://.+", description="s3://bucket/prefix or file:///folder")
]


class SchedulingEntry(Fields, frozen=True, kw_only=True):
    """The scheduling of one sub-topology."""

    sub_topology: Annotated[
        Natural | Text | None, Doc("its number, as `streamsapp describe` shows it; either this or `source`")
    ] = None
    source: Annotated[Text | None, Doc("a topic that it reads")] = None
    class_: Annotated[
        Literal["latency", "bulk"] | None,
        Doc(
            "`latency` goes before `bulk`; unless set, bulk if another sub-topology is of class latency, and latency "
            "otherwise"
        ),
    ] = msgspec.field(name="class", default=None)
    weight: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_WEIGHT)], Doc("its part of the processing threads, within its class")
    ] = 1
    on_failure: Annotated[
        Literal["handler", "pause"],
        Doc("`pause` sets it aside when it fails again and again, or hangs, and the others go on"),
    ] = "handler"


class Reference(Fields, frozen=True, kw_only=True):
    """A ConfigMap or Secret of the same namespace."""

    name: Annotated[str, Meta(extra={"check": object_name_fault}), Doc("its name")]
