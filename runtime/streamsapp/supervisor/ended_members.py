"""The members of the group that the instances of a pod are; those whose process has ended are taken out at once.

Called on the threads of the pod's instances. The group would wait for a member's session otherwise. The coordinator is
asked by an instance that lives: it has a connection and the rights, and the supervisor needs neither.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from threading import Lock, Thread
from time import sleep

from streamsapp.manifest.member_notice import write_notice

log = logging.getLogger(__name__)

#: How often the other instances are asked, and seconds between two times: together a session as it comes, after which
#: the coordinator itself takes the member out.
TRIES, PAUSE = 12, 0.5


class EndedMembers:
    """Knows the member of each instance."""

    def __init__(
        self,
        take_out: Callable[[str, str], bool],
        notice: Callable[[Collection[str]], None] = write_notice,
    ) -> None:
        """``take_out`` asks the instances other than the one that is named, and returns whether one has done it;
        ``notice`` leaves word of the members, for the case that the whole container ends."""
        self._take_out = take_out
        self._notice = notice
        self._lock = Lock()
        #: The member's id of each instance, empty for one that is none now.
        self.members: dict[str, str] = {}

    def counts(self, instance: str, member_id: str) -> None:
        """The group counts an instance under this id; empty: not any more."""
        with self._lock:
            self.members[instance] = member_id
            self._notice([each for each in self.members.values() if each])

    def ended(self, instance: str) -> None:
        """The process of an instance has ended."""
        member_id = self.members.get(instance)
        if member_id:
            self.counts(instance, "")
            work = (instance, member_id)
            Thread(target=self._ask, args=work, name=f"ended-{instance}", daemon=True).start()

    def _ask(self, instance: str, member_id: str) -> None:
        for _ in range(TRIES):
            if self._take_out(instance, member_id):
                log.info("%s has ended; the group does not wait for its member %s", instance, member_id)
                return
            sleep(PAUSE)
        log.warning("no other instance of this pod could take %s out of the group; its session ends soon", instance)
