"""Names that topics and stores can have, and store builders that do not fit.

Called by the topology builder and the DSL, on the thread that builds the topology; where a sink chooses its topic, on a
processing thread, for each topic once.
"""

from __future__ import annotations

import re

from streamsapp.errors import TopologyError
from streamsapp.plain_text import plain_text
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.expiring import ExpiringType

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
#: A placeholder that was not filled in, or a function that an f-string has turned into text.
_TEMPLATE = re.compile(r"[{}<>]|%[a-z(]")
_BY_RECORD = "; give a function for a name that depends on the record: to(lambda key, value, metadata: f'orders-{key}')"


def topic_name(user: str, topic: object) -> str:
    """Returns the name of a topic as text; raises for what Kafka refuses as one."""
    name = plain_text(topic)
    if not _is_name(name):
        by_record = user == "to" and isinstance(name, str) and _TEMPLATE.search(name)
        raise TopologyError(
            f"{user}: {topic!r:.300} is not the name of a topic; use 1 to 249 ASCII letters, digits, '.', '_' and '-'"
            f"{_BY_RECORD if by_record else ''}"
        )
    return str(name)


def check_store_name(user: str, name: object) -> None:
    """Raises for what cannot be part of a changelog's name."""
    if not _is_name(name):
        raise TopologyError(f"{user}: use ASCII letters, digits, '.', '_' and '-' in the name of a store")


def check_store_builder(operation: str, builder: object) -> None:
    """Raises unless it is a builder of a store."""
    if not isinstance(builder, StoreBuilder):
        raise TopologyError(
            f"{operation} needs a store builder, got {type(builder).__name__}; make one of a supplier with "
            "Stores.key_value_store_builder(supplier, key_serde, value_serde)"
        )


def check_read_only_store(operation: str, builder: StoreBuilder) -> None:
    """Raises unless it is a builder of a store that has no changelog to be configured."""
    check_store_builder(operation, builder)
    if builder.log_config:
        raise TopologyError(
            f"{operation}({builder.name!r}): the store is restored from the topic that it reads, and has no changelog "
            f"topic to which {builder.log_config!r} could apply; leave the configuration of its log out (log_config, "
            "logConfig), and set it on that topic itself"
        )
    refuse_ttl(operation, builder)


def refuse_ttl(operation: str, builder: StoreBuilder) -> None:
    """Raises for a time to live of a store that is restored from a topic of others."""
    if isinstance(builder.type, ExpiringType):
        raise TopologyError(
            f"{operation}({builder.name!r}): the store is restored from the topic that it reads, in which its entries "
            "cannot be deleted; leave the time to live out (ttl), and have the writers of the topic delete"
        )


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and name not in (".", "..")
