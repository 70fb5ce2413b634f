"""A member of a group, as a transaction's offsets are fenced by it. Polling thread only."""

from __future__ import annotations

from typing import NamedTuple


class Member(NamedTuple):
    """The member of a group for which a transaction commits offsets: they are fenced by it (KIP-447)."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
