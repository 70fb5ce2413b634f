"""Lengths as Kafka's newer requests write them (KIP-482). Pure; called by the modules that write requests by hand."""

from __future__ import annotations


def compact_count(items: int) -> bytes:
    """The number of items of an array, or of bytes of a string, that is not none: a varint of one more."""
    left, encoded = items + 1, bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)
