"""Names nodes and stores: one counter per builder, consumed exactly as Kafka Streams consumes it.

The number in a generated name depends on everything built before it, and so do the names of changelog and repartition
topics. A number is therefore used up for an operator even where the user named it: naming one node must not rename the
others. Called while a program is built, on the user's thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from streamsapp.errors import TopologyError

REPARTITION_SUFFIX = "-repartition"

_MAX_LENGTH = 249
#: A name that was generated for a stream's node or store.
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def validate_name(name: str) -> None:
    """Raises ``TopologyError`` for a name that Kafka refuses, for names become parts of topic names."""
    if not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise TopologyError(f"the name {name!r} is illegal; use ASCII letters, digits, '.', '_' and '-'")
    if len(name) > _MAX_LENGTH:
        raise TopologyError(f"the name {name!r} has {len(name)} characters; a name has at most {_MAX_LENGTH}")


class NameGenerator:
    """Hands out names; every call uses up one number."""

    def __init__(self) -> None:
        self._index = 0
        #: Names of stores and internal topics that are no user's (KIP-1111); not all of them come to exist.
        self.resources: set[str] = set()

    def processor(self, prefix: str) -> str:
        """Returns the next name of a processor node, such as ``PREFIX0000000007``."""
        name = f"{prefix}{self._index:010d}"
        self._index += 1
        return name

    def store(self, prefix: str) -> str:
        """Returns the next name of a store, such as ``PREFIXSTATE-STORE-0000000007``."""
        return self.resource(self.processor(f"{prefix}STATE-STORE-"))

    def resource(self, name: str, *, given: bool = False) -> str:
        """Returns the name of a store or of an internal topic, and notes it unless the user has given it."""
        if not given:
            self.resources.add(name)
        return name

    def named(self, name: str | None, prefix: str, suffix: str = "") -> str:
        """Returns the user's name with the suffix, or else a generated one; a number is used up either way."""
        generated = self.processor(prefix)
        if name is None:
            return generated
        if suffix:
            validate_name(name + suffix)
        return name + suffix


@dataclass(frozen=True)
class RepartitionNames:
    """The names of the nodes and of the topic that one repartition consists of."""

    topic: str
    sink: str
    filter: str
    source: str


def repartition_names(names: NameGenerator, base: str, *, given: bool) -> RepartitionNames:
    """Derives the names from one that the user gave, or from a store's; generates them if that name was generated
    itself. ``given`` says whether the user has named the topic."""
    topic = names.resource(base if base.endswith(REPARTITION_SUFFIX) else base + REPARTITION_SUFFIX, given=given)
    generated = RepartitionNames(
        topic,
        sink=names.processor("KSTREAM-SINK-"),
        filter=names.processor("KSTREAM-FILTER-"),
        source=names.processor("KSTREAM-SOURCE-"),
    )
    if _GENERATED.fullmatch(base):
        return generated
    return RepartitionNames(topic, f"{topic}-sink", f"{topic}-filter", f"{topic}-source")
