"""Asks pods for their ``/status`` and their last hour, several at the same time; and one to take members out of the
group.

Made once, called on the loops' threads. Each request has a thread of this room.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from random import sample
from threading import BoundedSemaphore
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from streamsapp.structs import decoded
from streamsapp.web.history import HistoryAnswer, Moment
from streamsapp_operator.model.observed_state import PodReport
from streamsapp_operator.observe.exchange import Address, ExchangeResponse, ask
from streamsapp_operator.observe.status_document import EARLIEST, LATEST, MAX_BYTES, read_status
from streamsapp_operator.steady_clock import SteadyClock

log = logging.getLogger(__name__)

#: For each pod, its answer included.
TIMEOUT_SECONDS = 2.0
#: Pods that are asked at a time, and those of one application: many that do not answer leave threads to the others.
_AT_A_TIME, _OF_ONE = 64, 16
#: An application's pods are asked for so many times as long as one may take: the facts are old by then, and the
#: operator counts as hung after a minute.
_TIMES = 10
T = TypeVar("T")

_NOT_ASKED = "it was not asked: the others took too long"


class PodAsker:
    """Asks pods, with the application's token."""

    def __init__(self, clock: SteadyClock, timeout: float = TIMEOUT_SECONDS) -> None:
        self._clock = clock
        self._timeout = timeout
        self._threads = ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="ask")

    def ask_all(
        self, pods: Mapping[str, Address], application_id: str, tokens: Sequence[str]
    ) -> dict[str, PodReport | str]:
        """Returns the report of each pod, or why there is none."""
        return self._all({name: partial(self._ask, pods[name], application_id, tokens) for name in pods}, _NOT_ASKED)

    def histories(
        self, pods: Mapping[str, tuple[Address, int]], tokens: Sequence[str]
    ) -> dict[str, Mapping[str, tuple[Moment, ...]]]:
        """Returns what the instances of each pod measured after a time, in milliseconds; of a pod that has none to
        give, as one of an older version, nothing."""
        asked = {name: partial(self._history, address, after, tokens) for name, (address, after) in pods.items()}
        return self._all(asked, {})

    def take_out(self, address: Address, members: Sequence[str], tokens: Sequence[str]) -> bool:
        """Has a pod take members whose processes have ended out of the group; returns whether it has done so."""
        path = f"/ended?{urlencode([('member', each) for each in members])}"
        answer, _ = self._answer(address, path, tokens, method="POST")
        done = not isinstance(answer, str) and answer.code == HTTPStatus.OK
        if not done:
            said = answer if isinstance(answer, str) else f"{answer.code} {answer.body[:200].decode(errors='replace')}"
            log.info("%s did not take members out of the group: %s", address, said)
        return done

    def _all(self, asks: Mapping[str, Callable[[], T]], missing: T) -> dict[str, T]:
        """Returns what was answered; ``missing`` where there was no time to ask."""
        turns = BoundedSemaphore(_OF_ONE)
        give_up = self._clock.now() + _TIMES * self._timeout
        asked = {}
        # In any order: if some are left out, they are others each time.
        for name in sample(list(asks), len(asks)):
            if not turns.acquire(timeout=max(0.0, give_up - self._clock.now())):
                break
            asked[name] = self._threads.submit(asks[name])
            asked[name].add_done_callback(lambda _: turns.release())
        return dict.fromkeys(asks, missing) | {name: answer.result() for name, answer in asked.items()}

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, address: Address, application_id: str, tokens: Sequence[str]) -> PodReport | str:
        answer, asked_at = self._answer(address, "/status", tokens)
        return answer if isinstance(answer, str) else self._understand(answer, application_id, asked_at)

    def _history(self, address: Address, after: int, tokens: Sequence[str]) -> Mapping[str, tuple[Moment, ...]]:
        answer, _ = self._answer(address, f"/console/history?after={after}", tokens)
        if isinstance(answer, str) or answer.code != 200:
            return {}
        try:
            return decoded(answer.body, HistoryAnswer).instances
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {}

    def _answer(
        self, address: Address, path: str, tokens: Sequence[str], *, method: str = "GET"
    ) -> tuple[ExchangeResponse | str, float]:
        """Asks one pod; returns its answer, or why there is none, and when it was asked. It may not have heard of
        today's token yet: then yesterday's is tried."""
        asked_at = self._clock.now()
        deadline = asked_at + self._timeout
        answer: ExchangeResponse | str = "there is no token to ask it with"
        for token in tokens:
            asked_at = self._clock.now()
            try:
                answer = ask(address, path, token, lambda: deadline - self._clock.now(), MAX_BYTES, method=method)
            except (OSError, HTTPException, ValueError) as error:
                return f"it did not answer at {address}: {str(error)[:200] or type(error).__name__}", asked_at
            if answer.code != 401:
                break
        return answer, asked_at

    def _understand(self, answer: ExchangeResponse, application_id: str, asked_at: float) -> PodReport | str:
        if answer.code != 200:
            said = answer.body[:200].decode(errors="replace").strip()
            return f"it answered /status with {answer.code}: {said}"
        offset = clock_offset(answer.date, asked_at)
        if offset is None:
            return "its answer has no Date, so the age of what it says is not known"
        return read_status(answer.body, application_id, asked_at, offset)


def clock_offset(date: str | None, asked_at: float) -> float | None:
    """Returns the pod's clock minus the operator's, up to a second too small: ``Date`` has whole seconds."""
    try:
        seconds = parsedate_to_datetime(date or "").timestamp()
    except (ValueError, OverflowError):
        return None
    return seconds - asked_at if EARLIEST <= seconds <= LATEST else None
