"""The Heartbeat request and its answer, written and read by hand: ten a second are most of what an idle instance costs.

Pure; used on the membership's thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from streamsapp.brokers.encoding import INT16, INT32, Reader, encoded_text
from streamsapp.brokers.request_by_hand import RequestByHand
from streamsapp.membership.wire import GroupSettings, Identity

#: The greatest is fixed: a newer one may mean something else.
_VERSIONS = (0, 4)
_FIRST_WITH_INSTANCES, _FIRST_THROTTLED = 3, 1


class HeartbeatRequest(RequestByHand["HeartbeatAnswer"]):
    """A member's sign of life."""

    name, API_KEY, first_compact = "HeartbeatRequest", 12, 4

    def __init__(self, group: GroupSettings, identity: Identity) -> None:
        super().__init__(_VERSIONS)
        self._group = group
        self._identity = identity

    def parts(self, version: int, *, compact: bool) -> Iterator[bytes]:
        yield encoded_text(self._group.group_id, compact=compact)
        yield INT32.pack(self._identity.generation)
        yield encoded_text(self._identity.member_id, compact=compact)
        if version >= _FIRST_WITH_INSTANCES:
            yield encoded_text(self._group.instance_id, compact=compact)

    def read(self, reader: Reader, version: int) -> HeartbeatAnswer:
        (throttled,) = reader.read(INT32) if version >= _FIRST_THROTTLED else (0,)
        (code,) = reader.read(INT16)
        reader.skip_tags()
        return HeartbeatAnswer(code, throttled)


class HeartbeatAnswer(NamedTuple):
    """The error code, and for how long the broker is to be left alone."""

    error_code: int
    throttle_time_ms: int
