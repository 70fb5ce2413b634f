"""The instances of one pod: started, watched, drained and stopped together.

Made by the command line, whose main thread waits; every instance has a thread here, and one looks after their health.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.client import HTTPException
from itertools import chain
from urllib.parse import urlencode

import msgspec

from streamsapp.query.remote_reader import Fetch, PeerResponse
from streamsapp.structs import decoded
from streamsapp.supervisor.ended_members import EndedMembers
from streamsapp.supervisor.instance_process import InstanceProcess
from streamsapp.supervisor.restart_policy import LivenessChecks
from streamsapp.web.history import HistoryAnswer, MomentHistory

log = logging.getLogger(__name__)

#: Seconds between two looks at the instances' health.
HEALTH_PERIOD = 5.0
#: The time that an instance may take to answer, in seconds. It may have to ask another one first.
TIMEOUT = 10.0
#: The part of a pod's time to end that is kept for ending its processes: so many seconds, or that share of the whole if
#: it is less.
_RESERVE, _RESERVE_SHARE = 2.0, 0.2

#: Done, or asked to end before it had anything to do.
_GOOD_ENDS = (0, -signal.SIGTERM)


class PodSupervisor:
    """Several instances of one application."""

    def __init__(self, commands: Mapping[str, Sequence[str]], fetch: Fetch, shutdown_timeout: float) -> None:
        """``commands`` starts each instance, by name; each is to end within ``time_of_instances(shutdown_timeout)``."""
        self._fetch = fetch
        self._shutdown_timeout = shutdown_timeout
        self.ended = EndedMembers(self._take_out)
        self.members = [
            InstanceProcess(name, command, self._refuse, members=self.ended) for name, command in commands.items()
        ]
        #: The figures of the last hour, by instance: they outlive the processes that measured them.
        self.histories = {name: MomentHistory(name) for name in commands}
        self._ended = threading.Event()
        self._refused: int | None = None
        self._stopping = threading.Lock()

    def start(self) -> None:
        """Start all instances. The first one goes ahead: a fault of the application is then reported once."""
        first, *others = self.members
        first.start()
        first.settled.wait()
        if not self._ended.is_set():
            for member in others:
                member.start()
            threading.Thread(target=self._watch, name="health", daemon=True).start()

    def wait(self) -> int:
        """Block until the pod was stopped or an instance refused to run; the exit code."""
        self._ended.wait()
        self.stop()
        if self._refused is not None:
            return self._refused
        # Instances that were not started yet when the pod was stopped have no code.
        return int(any(member.code not in (*_GOOD_ENDS, None) for member in self.members))

    def stop(self) -> None:
        """Drain and end all instances at the same time; instances that take too long are killed."""
        with self._stopping:
            for member in self.members:
                member.leave()
            give_up = time.monotonic() + self._shutdown_timeout
            for member in self._started():
                member.join(max(0.0, give_up - time.monotonic()))
            for member in self._started():
                if member.is_alive():
                    log.error("%s does not end in time; it is killed", member.instance)
                    member.kill()
                    member.join()
        self._ended.set()

    def drain(self, path: str, timeout: float) -> dict[str, PeerResponse | None]:
        """Ask all instances to hand over everything, at the same time. They stay, and are not started again."""
        for member in self.members:
            member.stay_down()
        return self.ask_all(path, method="POST", timeout=timeout)

    def ask(
        self, member: InstanceProcess, path: str, *, method: str = "GET", timeout: float = TIMEOUT
    ) -> PeerResponse | None:
        """Returns the answer of an instance; ``None`` if it does not answer."""
        endpoint = member.endpoint
        if endpoint is None:
            return None
        try:
            return self._fetch(endpoint, path, method=method, timeout=timeout)
        except (OSError, HTTPException) as error:
            log.debug("%s did not answer %s: %s", member.instance, path, error)
            return None

    def take_out(self, query: str, *, of: str = "") -> PeerResponse | None:
        """Have one of the instances take members whose processes have ended out of the group; ``of`` is the instance
        that ended, if it was one of this pod's. Returns the first good answer, else the last."""
        last = None
        for member in self.members:
            if member.instance != of and (reply := self.ask(member, f"/ended?{query}", method="POST")) is not None:
                last = reply
                if reply.status == HTTPStatus.OK:
                    break
        return last

    def _take_out(self, instance: str, member_id: str) -> bool:
        reply = self.take_out(urlencode({"member": member_id}), of=instance)
        return reply is not None and reply.status == HTTPStatus.OK

    def ask_all(self, path: str, *, method: str = "GET", timeout: float = TIMEOUT) -> dict[str, PeerResponse | None]:
        """Returns the answer of each instance, all asked at the same time."""
        with ThreadPoolExecutor(len(self.members)) as pool:
            replies = pool.map(lambda each: self.ask(each, path, method=method, timeout=timeout), self.members)
            return dict(zip((member.instance for member in self.members), replies, strict=True))

    def _started(self) -> list[InstanceProcess]:
        return [member for member in self.members if member.ident is not None]

    def _refuse(self, code: int) -> None:
        """Called on a member's thread."""
        self._refused = code
        self._ended.set()

    def _watch(self) -> None:
        """Kill instances that hang or have failed without ending; they are then started again."""
        health = {member.instance: LivenessChecks() for member in self.members}
        while not self._ended.wait(HEALTH_PERIOD):
            for member in self.members:
                if member.endpoint is None:
                    continue
                self._remember(member)
                reply = self.ask(member, "/healthz", timeout=HEALTH_PERIOD)
                if health[member.instance].heard(None if reply is None else reply.status == 200):
                    log.error("%s is not healthy: %s; it is killed", member.instance, _text(reply))
                    member.kill()

    def _remember(self, member: InstanceProcess) -> None:
        """Add what an instance has measured since it was asked last."""
        history = self.histories[member.instance]
        reply = self.ask(member, f"/console/history?after={history.last_ms}", timeout=HEALTH_PERIOD)
        if reply is None or reply.status != HTTPStatus.OK:
            return
        try:
            instances = decoded(reply.body, HistoryAnswer).instances
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.debug("%s answered with a history that cannot be read: %s", member.instance, error)
            return
        for moment in chain.from_iterable(instances.values()):
            history.add(moment)


def time_of_instances(shutdown_timeout: float) -> float:
    """The seconds that the instances of a pod have to end, so that the pod ends within ``shutdown_timeout``."""
    return shutdown_timeout - min(_RESERVE, _RESERVE_SHARE * shutdown_timeout)


def _text(reply: PeerResponse | None) -> str:
    return "it does not answer" if reply is None else reply.body.decode(errors="replace").strip()
