"""A member commits before it joins: from then on no commit begins until all have joined."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from played_coordinator import Coordinator
from streamsapp.membership.mailbox import MembershipMailbox
from streamsapp.membership.member_id import MemberId
from streamsapp.membership.rebalance import COMMIT_FIRST, RebalanceHandler
from streamsapp.membership.wire import GroupSettings, Identity
from streamsapp.testing import MockClock


class Joining:
    """A member of a group that is about to join again; the test is its polling thread."""

    def __init__(self, *, commits_first: bool = True) -> None:
        self.clock = MockClock()
        self.coordinator = Coordinator()
        self.mailbox = MembershipMailbox(self.clock, "app-1")
        self.mailbox.open(Identity(1, "member"))
        nothing = cast(Any, None)
        self.handler = RebalanceHandler(
            GroupSettings("app", None, 6.0, 0.1, 60.0, 0.2), MemberId(None), self.clock, cast(Any, self.coordinator),
            self.mailbox, cast(Any, SimpleNamespace(commits_first=commits_first)), nothing,
        )  # fmt: skip

    async def looks_often(self) -> None:
        """The member looks again and again whether the commit is through."""
        pauses = len(self.coordinator.pauses)
        async with asyncio.timeout(60):
            while len(self.coordinator.pauses) < pauses + 3:
                await asyncio.sleep(0.001)


def test_a_member_joins_once_the_commit_is_through_that_it_wants() -> None:
    it = Joining()

    async def scene() -> None:
        prepared = asyncio.ensure_future(it.handler.prepare())
        await it.looks_often()
        assert it.mailbox.commit_wanted
        assert it.mailbox.begin_commit(), "the group does not assign anew yet"
        await it.looks_often()
        assert not prepared.done()
        it.mailbox.end_commit()
        await prepared
        assert not it.mailbox.may_commit

    asyncio.run(scene())


def test_others_do_not_wait_for_long_for_a_commit_that_does_not_come() -> None:
    it = Joining()

    async def scene() -> None:
        prepared = asyncio.ensure_future(it.handler.prepare())
        await it.looks_often()
        it.clock.advance(round(1000 * COMMIT_FIRST))
        await prepared

    asyncio.run(scene())
    assert not it.mailbox.commit_wanted


@pytest.mark.parametrize(("commits_first", "expects"), [(False, False), (True, True)])
def test_none_is_wanted_where_results_count_without_it_or_one_was_a_moment_ago(
    commits_first: bool, expects: bool
) -> None:
    it = Joining(commits_first=commits_first)
    it.handler.committed_lately = expects

    asyncio.run(it.handler.prepare())

    assert it.coordinator.pauses == []
    assert not it.mailbox.may_commit
