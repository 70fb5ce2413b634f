"""Records and the identifiers of where they come from.

Used by every layer, on any thread. The types hold no logic beyond their own identity.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias

from streamsapp.java_names.lookup import java_names

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a type checker knows it; defaults are in typing from Python 3.13 on

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    T = TypeVar("T")
else:
    from typing import TypeVar

    K, V, T = TypeVar("K"), TypeVar("V"), TypeVar("T")

#: Kafka's record headers: ordered, names may repeat, values may be null.
Headers: TypeAlias = list[tuple[str, bytes | None]]

#: Kafka's code for "the producer set the time".
_CREATE_TIME = 1


def check_headers(headers: Headers) -> None:
    """Raises ``TypeError`` or ``ValueError`` for headers that the client does not take: it would raise where no handler
    can be asked any more, or end the process."""
    for pair in headers:
        name, value = pair
        if not (isinstance(pair, tuple) and isinstance(name, str)):
            raise TypeError(f"a header is a tuple of a name and bytes, and {pair!r:.200} is not")
        if not name.isascii():
            try:
                name.encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"the name of header {name!r} is not text that UTF-8 can express") from error
        if value.__class__ is not bytes and value is not None:
            _check_header_value(name, value)


def _check_header_value(name: str, value: object) -> None:
    if isinstance(value, str):  # the client encodes it
        value.encode()
    elif not isinstance(value, bytes):
        raise TypeError(f"the value of header {name!r} is {type(value).__name__}, and not bytes or None")


class TopicPartition(NamedTuple):
    """One partition of a topic: the topic's name and the partition's number, from 0."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdentity(NamedTuple):
    """The topic that a name stands for: one that is deleted and created again has another id, and so has the topic of
    this name in another cluster (KIP-516). An empty field is not known."""

    #: In Base64, as the client prints it.
    topic_id: str = ""
    cluster_id: str = ""

    def is_other(self, then: TopicIdentity | None) -> bool:
        """Return whether the name stood for another topic ``then``, as far as both are known. Topics with the same id
        have the same records, also in two clusters: one is the mirror of the other."""
        if then is None:
            return False
        if self.topic_id and then.topic_id:
            return self.topic_id != then.topic_id
        return self.is_elsewhere(then)

    def is_elsewhere(self, then: TopicIdentity) -> bool:
        """Return whether ``then`` is a topic of another cluster, as far as both are known."""
        return bool(self.cluster_id and then.cluster_id) and self.cluster_id != then.cluster_id

    @classmethod
    def of(cls, id_bytes: bytes, cluster_id: str = "") -> TopicIdentity:
        """The topic with this id, in the bytes that requests have it in."""
        return cls(base64.b64encode(id_bytes).decode().rstrip("="), cluster_id)

    @property
    def id_bytes(self) -> bytes:
        """The id as requests have it; empty if it is not known. Raises ``ValueError`` for a text that is no id."""
        return base64.b64decode(f"{self.topic_id}==", validate=True) if self.topic_id else b""

    def __str__(self) -> str:
        return f"topic id {self.topic_id or 'unknown'} in cluster {self.cluster_id or 'unknown'}"


UNKNOWN_TOPIC = TopicIdentity()


class TaskId(NamedTuple):
    """A task: one sub-topology over one partition group; written ``<subtopology>_<partition>``, as in Kafka Streams."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Makes a task id of a text such as ``"0_3"``; raises ``ValueError`` for anything else."""
        subtopology, separator, partition = text.partition("_")
        if not (separator and subtopology.isdecimal() and partition.isdecimal()):
            raise ValueError(f"{text!r} is not a task id; a task id looks like 0_3")
        return cls(int(subtopology), int(partition))


@java_names("Record")
@dataclass(slots=True)
class Record(Generic[K, V]):
    """A record as processors see it: key, value, event time in milliseconds since the epoch, headers (KIP-478)."""

    key: K
    value: V
    timestamp: int
    headers: Headers

    def __init__(self, key: K, value: V, timestamp: int, headers: Headers | None = None) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = [] if headers is None else headers

    def with_key(self, key: T) -> Record[T, V]:
        """Returns a copy with another key."""
        return Record(key, self.value, self.timestamp, list(self.headers or ()))

    def with_value(self, value: T) -> Record[K, T]:
        """Returns a copy with another value."""
        return Record(self.key, value, self.timestamp, list(self.headers or ()))

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """Returns a copy with another timestamp, in milliseconds since 1970."""
        return Record(self.key, self.value, timestamp, list(self.headers or ()))

    def with_headers(self, headers: Headers) -> Record[K, V]:
        """Returns a copy with other headers, a list of pairs of name and bytes or ``None``."""
        return Record(self.key, self.value, self.timestamp, None if headers is None else list(headers))


class RecordMetadata(NamedTuple):
    """The topic, partition and offset at which the record being processed was read (KIP-478)."""

    topic: str
    partition: int
    offset: int


class InputRecord(Protocol):
    """A raw record as the consumer hands it over: the part of ``confluent_kafka.Message`` that tasks read.

    Records that no broker sent are a :class:`RawRecord`, so that the same task code runs without one.
    """

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> Headers | None: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class RawRecord:
    """An :class:`InputRecord` made from plain values; for whatever feeds tasks without a consumer."""

    topic_name: str
    partition_number: int
    record_offset: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    timestamp_ms: int
    header_list: Headers | None = None

    def topic(self) -> str:
        return self.topic_name

    def partition(self) -> int:
        return self.partition_number

    def offset(self) -> int:
        return self.record_offset

    def key(self) -> bytes | None:
        return self.key_bytes

    def value(self) -> bytes | None:
        return self.value_bytes

    def timestamp(self) -> tuple[int, int]:
        return (_CREATE_TIME, self.timestamp_ms)

    def headers(self) -> Headers | None:
        return self.header_list

    def __len__(self) -> int:
        return len(self.value_bytes or b"")
