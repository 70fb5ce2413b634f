"""Finds out how partitioners are called, and reads their answers: they are the user's code.

Called where a sink is added, on the thread that builds the topology; and for each record that goes through a
partitioner, on processing threads and on the threads of `streamsapp produce`. Pure.
"""

from __future__ import annotations

import inspect
from operator import index
from typing import Any

from streamsapp.errors import TopologyError

_ARGUMENTS = ("topic", "key", "value", "partitions")
_WITH_HEADERS = ("topic", "key", "value", "headers", "partitions")


def takes_headers(user: str, partitioner: Any) -> bool:
    """Says whether a partitioner wants the record's headers, too (KIP-1321): it does if four arguments are too few.

    Raises ``TopologyError``, which begins with ``user``, for a value that cannot be called with either.
    """
    if inspect.iscoroutinefunction(partitioner):
        raise TopologyError(f"{user} is a coroutine, which is never awaited; write it without async")
    if not callable(partitioner):
        raise TopologyError(f"{user} must be a function of ({', '.join(_ARGUMENTS)}), got {partitioner!r:.200}")
    try:
        signature = inspect.signature(partitioner)
    except ValueError:  # some built-ins have no signature
        return False
    if _binds(signature, _ARGUMENTS):
        return False
    if _binds(signature, _WITH_HEADERS):
        return True
    raise TopologyError(
        f"{user} is called with ({', '.join(_ARGUMENTS)}) or with ({', '.join(_WITH_HEADERS)}); "
        f"{getattr(partitioner, '__qualname__', partitioner)}{signature} takes neither"
    )


def _binds(signature: inspect.Signature, arguments: tuple[str, ...]) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def chosen_partitions(topic: str, chosen: Any) -> tuple[int, ...]:
    """Returns the numbers that a partitioner chose, which is not ``None``, each once and in order.

    Every value that Python takes for an index is a number, also a number of numpy. Raises ``TypeError`` for anything
    else.
    """
    try:
        return (index(chosen),)
    except TypeError:
        pass
    try:
        if isinstance(chosen, (str, bytes)):
            raise TypeError("text is not a collection of partitions")
        return tuple(sorted({index(partition) for partition in chosen}))
    except TypeError as error:
        raise TypeError(
            f"the partitioner chose {chosen!r:.200} of topic {topic}; return the number of a partition, a collection "
            "of numbers, or None"
        ) from error
