"""The operators of ``KStream`` that Kafka Streams does not have.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streamsapp.dsl.as_of_join import AsOfJoin
from streamsapp.dsl.async_mapping import AsyncMapping, OrderName
from streamsapp.dsl.deduplication import DeduplicationOptions
from streamsapp.dsl.join_options import Joined
from streamsapp.dsl.join_side import JoinSide
from streamsapp.dsl.late import Late
from streamsapp.dsl.options import Named, name_of
from streamsapp.dsl.place import Place
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.processor.api import Duration
from streamsapp.serdes.api import AnySerde, Serde

if TYPE_CHECKING:
    from streamsapp.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")
VO = TypeVar("VO")


class KStreamAdditions(JavaNames, ABC, Generic[K, V]):
    """The part of ``KStream`` that goes beyond Kafka Streams."""

    _place: Place
    _side: JoinSide

    @abstractmethod
    def _at(self, place: Place) -> KStream[Any, Any]:
        """The stream at another place."""

    def map_async(
        self,
        function: Callable[..., Awaitable[VR]],
        concurrency: int = 100,
        order: OrderName = "key",
        timeout: Duration = 30_000,
        retries: int = 0,
        *,
        using: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        result_serde: Serde[VR] | None = None,
        named: Named | str | None = None,
    ) -> KStream[K, VR]:
        """Gives each record the value that the coroutine function ``function(value)``, or ``function(key, value)``,
        returns. The key stays, and so do timestamp and headers.

        A task makes at most ``concurrency`` calls at the same time, each on the event loop of the instance. A call that
        takes longer than ``timeout`` (a ``timedelta`` or milliseconds), or raises, is made again up to ``retries``
        times; the pauses between grow from 0.1 to 10 s. Then the processing exception handler decides. Results go on in
        the order of the records of a ``"key"`` or of the ``"partition"``, or with ``"none"`` as they come.

        ``using`` makes an async context manager, such as ``aiohttp.ClientSession``: it is entered before the first call
        of an instance, its value is the function's first argument, and it is left with the last task. Records that wait
        are kept in a store with the serdes: after a crash only calls without a committed answer are made again.
        """
        options = AsyncMapping(
            function, concurrency, order, timeout, retries, using, key_serde, value_serde, result_serde
        )
        return self._at(options.place(self._place, name_of(named)))

    def deduplicate(
        self,
        by: Callable[..., Any] | None = None,
        *,
        within: Duration,
        grace: Duration | None = None,
        same_key: bool = False,
        by_serde: AnySerde | None = None,
        late: Late[K, V] | None = None,
        named: Named | str | None = None,
    ) -> KStream[K, V]:
        """Lets the first record of each id pass, and leaves out records of that id whose timestamp is less than
        ``within`` from that of one that has passed, before or after it. Key, value, timestamp and headers stay.

        The id is the key, or what ``by(value)`` or ``by(key, value)`` returns; a record whose id is ``None`` passes.
        The records of an id may have different keys: with ``by`` the stream goes through a repartition topic, by id.
        With ``same_key=True``, which says that records of an id always have the same key, it does not.

        A record that is older than stream time by more than ``grace``, which is ``within`` unless given, is dropped as
        late: the ids of its time are forgotten. ``late`` says where it goes. ``by_serde`` writes the ids; without it
        they are MessagePack, or what the configured default serde of keys writes. Durations are ``timedelta`` or whole
        milliseconds.
        """
        options = DeduplicationOptions(by, within, grace, same_key, by_serde, late, named)
        return self._at(options.place(self._place))

    def join_as_of(
        self,
        other: KStream[K, VO],
        joiner: Callable[..., VR],
        within: Duration,
        joined: Joined[K, V, VO] | None = None,
        *,
        late: Late[K, VO] | None = None,
    ) -> KStream[K, VR]:
        """Joins each record with the latest record of another stream that has the same key and is not later: its
        timestamp is the record's, or older by at most ``within`` (a ``timedelta`` or milliseconds).

        ``joiner`` is given ``(value, other_value)``, or ``(key, value, other_value)`` if it must be given three
        arguments. A result has the record's timestamp and headers. Records of the other stream make no results.

        A record is joined when it comes. With ``Joined(grace=...)`` it waits until a record of either stream is later
        by so much, so that others which come late by less are not missed. Of two records of the other stream with one
        key and timestamp the last one counts. ``late`` says where a record of the other stream goes that is older than
        ``within`` and grace, and is dropped.
        """
        return self._join_as_of("join_as_of", other, joiner, within, joined, late)

    def left_join_as_of(
        self,
        other: KStream[K, VO],
        joiner: Callable[..., VR],
        within: Duration,
        joined: Joined[K, V, VO] | None = None,
        *,
        late: Late[K, VO] | None = None,
    ) -> KStream[K, VR]:
        """Joins as :meth:`join_as_of` does; a record that finds none, or has no key, is joined with ``None``."""
        return self._join_as_of("left_join_as_of", other, joiner, within, joined, late)

    def _join_as_of(self, operation: str, other: Any, *given: Any) -> KStream[K, Any]:
        if not isinstance(other, KStreamAdditions):
            raise TopologyError(f"{operation}: a stream is joined with a KStream, not {type(other).__name__}")
        return self._at(AsOfJoin(operation, *given).place(self._side, other._side))
