"""The times that only work in one order: pairs of settings, with why and the remedy.

Pure; used where a configuration is made and where a manifest is read. A value that is no number is left to the client,
which names it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from streamsapp.config.client_keys import PREFIXES_OF, PRODUCER_ONLY, given_to

#: librdkafka's defaults, or this package's where it has its own, in milliseconds. An idle instance sends its heartbeats
#: this far apart.
_DEFAULTS = {
    "fetch.wait.max.ms": 100.0,
    "heartbeat.interval.ms": 250.0,
    "linger.ms": 20.0,
    "reconnect.backoff.max.ms": 10_000.0,
    "reconnect.backoff.ms": 100.0,
    "session.timeout.ms": 6_000.0,
    "socket.timeout.ms": 60_000.0,
    "transaction.timeout.ms": 60_000.0,
}
#: Older names come first: they win where both are set.
_NAMES = {
    "delivery.timeout.ms": ("message.timeout.ms", "delivery.timeout.ms"),
    "linger.ms": ("queue.buffering.max.ms", "linger.ms"),
}
#: Given without a prefix they would reach clients for which another value is right.
_OF_ONE_CLIENT = PRODUCER_ONLY | {"socket.timeout.ms"}
#: A record is to be written some time before its instance's session is over.
_SESSION_MARGIN_MS = 1_000
#: Brokers take no longer ``transaction.timeout.ms`` unless they are configured otherwise.
_MOST_OF_BROKERS = 900_000


@dataclass(frozen=True)
class Order:
    """A sum of times that has to fit into another: ``sum(shorter) * factor + more ≤ longer``, in milliseconds."""

    client: str
    shorter: tuple[str, ...]
    longer: str
    why: str
    factor: float = 1.0
    more: float = 0.0
    #: The guarantee that the order is for; of any guarantee unless set.
    exactly_once: bool | None = None
    #: The order counts where the user has set all of these; defaults give way.
    where_set: tuple[str, ...] = ()


def _of_each(
    kinds: tuple[str, ...], shorter: str, longer: str, why: str, *, more: float = 0.0, where_set: tuple[str, ...] = ()
) -> tuple[Order, ...]:
    return tuple(Order(kind, (shorter,), longer, why, more=more, where_set=where_set) for kind in kinds)


_ORDERS = (
    Order(
        "producer",
        ("commit_interval_ms",),
        "transaction.timeout.ms",
        "the broker aborts a transaction that is open for longer, and a tenth more is left for the commit itself",
        factor=1.1,
        exactly_once=True,
    ),
    Order(
        "producer",
        ("delivery.timeout.ms",),
        "transaction.timeout.ms",
        "no record can wait to be written for longer than its transaction lives",
        exactly_once=True,
    ),
    Order(
        "producer",
        ("socket.timeout.ms",),
        "transaction.timeout.ms",
        "a request has to be given up before its transaction is over",
        more=-100,
        exactly_once=True,
    ),
    Order(
        "producer",
        ("linger.ms",),
        "transaction.timeout.ms",
        "records would wait for others until their transaction is over",
        more=1,
        exactly_once=True,
    ),
    Order("producer", ("linger.ms",), "delivery.timeout.ms", "records would be given up before they are sent", more=1),
    Order(
        "producer",
        ("linger.ms", "request.timeout.ms"),
        "delivery.timeout.ms",
        "a record would be given up before one request is",
        where_set=("request.timeout.ms", "delivery.timeout.ms"),
    ),
    Order(
        "main consumer",
        ("heartbeat.interval.ms",),
        "session.timeout.ms",
        "an instance would be taken for dead before its next heartbeat",
        more=1,
    ),
    Order(
        "main consumer",
        ("heartbeat.interval.ms",),
        "max_poll_interval_ms",
        "a rebalance waits for so long, and an instance learns of it by a heartbeat",
        more=1,
    ),
    *_of_each(
        ("main consumer", "restore consumer", "global consumer"),
        "fetch.wait.max.ms",
        "socket.timeout.ms",
        "a request for records would be given up while the broker waits for them",
        more=1_000,
    ),
    *_of_each(
        tuple(PREFIXES_OF),
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "the first wait for a broker may not be longer than the longest",
    ),
    *_of_each(
        tuple(PREFIXES_OF),
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "the first wait before a retry may not be longer than the longest",
        where_set=("retry.backoff.ms", "retry.backoff.max.ms"),
    ),
)


@dataclass(frozen=True)
class _Time:
    """A setting by the name that the user gave or has to give, and its milliseconds."""

    name: str
    ms: float
    is_set: bool

    def __str__(self) -> str:
        return f"{self.name} = {_number(self.ms)}{'' if self.is_set else ' (the default)'}"


class _Times:
    """The times of one configuration, as each client has them."""

    def __init__(self, kafka: Mapping[str, str], own: Mapping[str, int], *, exactly_once: bool) -> None:
        self._own = own
        self._given = {kind: given_to(kind, kafka) for kind in PREFIXES_OF}
        self._exactly_once = exactly_once

    def of(self, kind: str, key: str) -> _Time | None:
        """Returns the time; ``None``: it is no number, or there is none by default."""
        if key in self._own:
            return _Time(key, float(self._own[key]), is_set=True)
        for name in _NAMES.get(key, (key,)):
            if name in self._given[kind]:
                full, value = self._given[kind][name]
                ms = _milliseconds(value)
                return None if ms is None else _Time(full, ms, is_set=True)
        ms = self._default(kind, key)
        prefix = PREFIXES_OF[kind][0] if key in _OF_ONE_CLIENT else ""
        return None if ms is None else _Time(prefix + key, ms, is_set=False)

    def _default(self, kind: str, key: str) -> float | None:
        if key == "delivery.timeout.ms" and not self._exactly_once:
            session = self.of("main consumer", "session.timeout.ms")
            return None if session is None else session.ms - _SESSION_MARGIN_MS
        if key == "socket.timeout.ms" and kind == "producer" and self._exactly_once:
            transaction = self.of("producer", "transaction.timeout.ms")  # librdkafka fits it to that
            return None if transaction is None else min(_DEFAULTS[key], transaction.ms)
        return _DEFAULTS.get(key)


def time_faults(kafka: Mapping[str, str], own: Mapping[str, int], *, exactly_once: bool) -> Iterator[tuple[str, str]]:
    """Returns each setting that does not fit another, and the fault with its remedy.

    ``kafka`` are the properties of the clients, with their prefixes; ``own`` are ``commit_interval_ms`` and
    ``max_poll_interval_ms``.
    """
    times = _Times(kafka, own, exactly_once=exactly_once)
    told: set[tuple[str, str]] = set()
    for order in _ORDERS:
        if order.exactly_once in (None, exactly_once) and (found := _fault(order, times)) is not None:
            key, longer, fault = found
            if (key, longer) not in told:
                told.add((key, longer))
                yield key, fault


def _fault(order: Order, times: _Times) -> tuple[str, str, str] | None:
    shorter = [each for key in order.shorter if (each := times.of(order.client, key)) is not None]
    longer = times.of(order.client, order.longer)
    if longer is None or len(shorter) < len(order.shorter):
        return None
    if not all(each is not None and each.is_set for each in map(partial(times.of, order.client), order.where_set)):
        return None
    least = math.ceil(round(sum(each.ms for each in shorter) * order.factor + order.more, 6))
    unbounded = order.longer == "delivery.timeout.ms" and longer.ms == 0
    if unbounded or longer.ms >= least:
        return None
    both = " and ".join(map(str, shorter))
    fault = f"{both} does not fit into {longer}: {order.why}; set {longer.name} to {least} or more"
    if order.longer == "transaction.timeout.ms" and least > _MOST_OF_BROKERS:
        fault += f" (brokers take {_MOST_OF_BROKERS} unless their transaction.max.timeout.ms is raised)"
    fault += f", or lower {' or '.join(each.name for each in shorter)}"
    at = longer if longer.is_set and not shorter[0].is_set else shorter[0]
    return at.name, longer.name, fault


def _milliseconds(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _number(ms: float) -> str:
    return f"{ms:.0f}" if ms.is_integer() else str(ms)
