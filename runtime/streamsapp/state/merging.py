"""Two layers of a store read as one: what is newer over what is below. Called by whoever iterates."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from streamsapp.state.entries import Entry


def merged(
    committed: Iterator[tuple[bytes, Entry]], overlay: list[tuple[bytes, Entry]], reverse: bool
) -> Iterator[tuple[bytes, Entry]]:
    """Both in the same order; the overlay wins, its deletions hide."""
    position, end = 0, len(overlay)
    for key, entry in committed:
        while position < end and overlay[position][0] != key and (overlay[position][0] < key) != reverse:
            if overlay[position][1][0] is not None:
                yield overlay[position]
            position += 1
        if position < end and overlay[position][0] == key:
            if overlay[position][1][0] is not None:
                yield overlay[position]
            position += 1
        else:
            yield key, entry
    for item in islice(overlay, position, None):
        if item[1][0] is not None:
            yield item
