"""The optimisations of the DSL by the names that Kafka Streams' ``topology.optimization`` has for them.

Called where a setting, a manifest or ``StreamsBuilder.build`` says which are wanted, on the caller's thread. Pure.
"""

from __future__ import annotations

NONE, ALL = "none", "all"
REUSE_KTABLE_SOURCE_TOPICS = "reuse.ktable.source.topics"
MERGE_REPARTITION_TOPICS = "merge.repartition.topics"
SINGLE_STORE_SELF_JOIN = "single.store.self.join"
_NAMES = (REUSE_KTABLE_SOURCE_TOPICS, MERGE_REPARTITION_TOPICS, SINGLE_STORE_SELF_JOIN)


def optimization_fault(wanted: object) -> str | None:
    """Returns what is wrong with ``none``, ``all``, or names with commas between them; ``None`` if nothing is."""
    names = [name.strip() for name in wanted.split(",")] if isinstance(wanted, str) else []
    if names in ([NONE], [ALL]) or (names and all(name in _NAMES for name in names)):
        return None
    return f"expected 'none', 'all', or some of {', '.join(_NAMES)} with commas between them, got {wanted!r:.200}"


def optimizations_of(wanted: str) -> frozenset[str]:
    """Returns the names of the optimisations that are wanted, of a text without fault."""
    names = {name.strip() for name in wanted.split(",")}
    return frozenset(_NAMES) if ALL in names else frozenset(names) - {NONE}


def missing_fault(wanted: str, built: frozenset[str]) -> str | None:
    """Returns which of the wanted optimisations a topology was built without; ``None`` if it has them all."""
    missing = optimizations_of(wanted) - built
    if not missing:
        return None
    return f"the topology was built without {', '.join(sorted(missing))}; build it with build(optimize={wanted!r})"
