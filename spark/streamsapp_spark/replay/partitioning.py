"""Chooses where records go: to the partition that Kafka's own partitioning chooses, and to the Spark task that has it.

Spark places a row by the hash of a column; which number leads where is worked out here, so that each stream task gets a
Spark task of its own. Pure.
"""

from __future__ import annotations

from itertools import count

from streamsapp.outgoing import OutputRecord
from streamsapp.serdes.murmur2 import partition_for

_MASK = 0xFFFFFFFF


def repartition_keys(number: int) -> list[int]:
    """Returns for each of ``number`` Spark partitions an integer whose row ``repartition(number, column)`` puts
    there."""
    found: dict[int, int] = {}
    for candidate in count():
        found.setdefault(_hash(candidate) % number, candidate)
        if len(found) == number:
            return [found[target] for target in range(number)]
    raise AssertionError  # count() never ends


def _hash(value: int) -> int:
    """Returns Spark's ``hash`` of an ``int``: Murmur3 with seed 42; as Java's ``Math.floorMod`` sees it."""
    mixed = _rotate((value & _MASK) * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    code = (_rotate(42 ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    code ^= 4
    code = (code ^ code >> 16) * 0x85EBCA6B & _MASK
    code = (code ^ code >> 13) * 0xC2B2AE35 & _MASK
    code ^= code >> 16
    return code - (1 << 32) if code >> 31 else code


def _rotate(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _MASK


def partition_of(record: OutputRecord, partitions: int, sequence: int) -> int:
    """Returns the partition of a record: the one that was chosen, or that of its key. Without a key the producer would
    choose at random; here each partition has its turn, so that a task that is run again gives the same."""
    if record[3] >= 0:
        return record[3]
    return sequence % partitions if record[2] is None else partition_for(record[2], partitions)
