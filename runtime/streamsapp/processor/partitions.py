"""Reads the answers of partitioners, which are the user's code.

Called for each record that goes through a partitioner, on processing threads and on the threads of `streamsapp
produce`. Pure.
"""

from __future__ import annotations

from operator import index
from typing import Any


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
