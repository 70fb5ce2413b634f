"""The numbers that the nodes of one task want committed with the offsets, to go on from wherever the task starts again.

Made on the polling thread with the task; read and written on the processing thread that holds the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

#: Stands before the name of a node whose stream time is kept. No store, by which nodes keep other numbers, is named so.
_NODE = "@"
#: So many bytes of stream times are kept at most: the broker takes 4096 for everything, in Base64.
_ROOM = 2000
_BYTES_OF_TIME = 12


class ProcessorMetadata:
    """Kafka Streams' ``ProcessorMetadata``, and the stream times of single nodes."""

    def __init__(self) -> None:
        #: The numbers of the DSL's operators, by store.
        self.numbers: dict[str, int] = {}
        self._stream_times: dict[str, Callable[[], int]] = {}

    def start(self, committed: Mapping[str, int]) -> None:
        """Take over the facts committed with one partition's offset: of one name the highest, as Kafka Streams does."""
        for name, value in committed.items():
            self.numbers[name] = max(value, self.numbers.get(name, value))

    def keep_stream_time(self, node: str, observed: Callable[[], int]) -> int | None:
        """Keep the stream time of a node from now on, and return the last committed one, ``None`` if there is none."""
        self._stream_times[node] = observed
        return self.numbers.get(_NODE + node)

    def to_commit(self) -> dict[str, int]:
        """Return everything. There is room for the times of some forty nodes; nodes with a name that only an earlier
        program had are left out."""
        numbers = {name: value for name, value in self.numbers.items() if not name.startswith(_NODE)}
        room = _ROOM
        for node, observed in self._stream_times.items():
            name = _NODE + node
            room -= len(name.encode()) + _BYTES_OF_TIME
            if room < 0:
                break
            numbers[name] = observed()
        return numbers
