"""The topics that names stand for, as the brokers tell any client of confluent-kafka (KIP-516).

confluent-kafka describes topics with its admin client only, and consumers need it, too: the requests go to the
client's own librdkafka directly. Called on whichever thread asks; each call waits for its answer.

librdkafka asks the controller, which may be away, though each broker knows the ids: then another broker is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_size_t,
    c_void_p,
    create_string_buffer,
    string_at,
)

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from streamsapp.kafka.librdkafka_handle import handle_of, librdkafka
from streamsapp.record import TopicIdentity

#: ``RD_KAFKA_ADMIN_OP_DESCRIBETOPICS``
_DESCRIBE_TOPICS = 19
#: An id of zeros: the broker knows none.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
#: The part of the time for which the controller is waited for.
_CONTROLLER = 0.25


def topic_identities(
    client: Consumer | Producer | AdminClient, topics: Collection[str], timeout: float
) -> dict[str, TopicIdentity]:
    """The topics that these names stand for now, of those names that there are and that may be described; with an
    empty id where the brokers know none. Raises ``KafkaException`` when the brokers do not answer."""
    if not topics:
        return {}
    handle, names, milliseconds = handle_of(client), sorted(topics), round(timeout * 1000)
    first = round(_CONTROLLER * milliseconds)
    try:
        found = _topic_ids(handle, names, first)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError._UNSUPPORTED_FEATURE:
            found = dict.fromkeys(names, "")
        elif code == KafkaError._TIMED_OUT:
            found = _topic_ids(handle, names, milliseconds - first, _any_broker(handle, first))
        else:
            raise
    cluster = _cluster_id(handle, milliseconds)
    return {topic: TopicIdentity(topic_id, cluster) for topic, topic_id in found.items()}


def _topic_ids(handle: int, topics: list[str], milliseconds: int, broker: int | None = None) -> dict[str, str]:
    """Ask a broker, or the controller."""
    with _answer(handle, topics, milliseconds, broker) as event:
        count = c_size_t()
        result = _library.rd_kafka_event_DescribeTopics_result(event)
        described = _library.rd_kafka_DescribeTopics_result_topics(result, byref(count))
        return dict(filter(None, (_described(described[index]) for index in range(count.value))))


class _Metadata(Structure):
    """``rd_kafka_metadata_t``, with the first field of each broker's entry."""

    _fields_ = (
        ("broker_cnt", c_int),
        ("brokers", POINTER(c_int32)),
        ("topic_cnt", c_int),
        ("topics", c_void_p),
        ("orig_broker_id", c_int32),
        ("orig_broker_name", c_char_p),
    )


def _any_broker(handle: int, milliseconds: int) -> int:
    """The number of a broker that answers."""
    found = POINTER(_Metadata)()
    _check(_library.rd_kafka_metadata(handle, 0, None, byref(found), milliseconds))
    try:
        told = found.contents
        if told.orig_broker_id >= 0 or not told.broker_cnt:
            return max(0, int(told.orig_broker_id))
        return int(told.brokers[0])  # one of those whose addresses are configured has answered, which have no number
    finally:
        _library.rd_kafka_metadata_destroy(found)


@contextmanager
def _answer(handle: int, topics: list[str], milliseconds: int, broker: int | None) -> Iterator[int]:
    with ExitStack() as made:
        names = (c_char_p * len(topics))(*(topic.encode() for topic in topics))
        wanted = _library.rd_kafka_TopicCollection_of_topic_names(names, len(topics))
        made.callback(_library.rd_kafka_TopicCollection_destroy, wanted)
        options = _library.rd_kafka_AdminOptions_new(handle, _DESCRIBE_TOPICS)
        made.callback(_library.rd_kafka_AdminOptions_destroy, options)
        text = create_string_buffer(200)
        _check(_library.rd_kafka_AdminOptions_set_request_timeout(options, milliseconds, text, len(text)), text.value)
        if broker is not None:
            _check(_library.rd_kafka_AdminOptions_set_broker(options, broker, text, len(text)), text.value)
        queue = _library.rd_kafka_queue_new(handle)
        made.callback(_library.rd_kafka_queue_destroy, queue)
        _library.rd_kafka_DescribeTopics(handle, wanted, options, queue)
        event = _library.rd_kafka_queue_poll(queue, 2 * milliseconds)
        if not event:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "topics were not described in time"))
        made.callback(_library.rd_kafka_event_destroy, event)
        _check(_library.rd_kafka_event_error(event), _library.rd_kafka_event_error_string(event))
        yield event


def _described(topic: int) -> tuple[str, str] | None:
    """Name and id of a topic; ``None`` if it cannot be described: whoever needs it finds out why."""
    if _library.rd_kafka_error_code(_library.rd_kafka_TopicDescription_error(topic)):
        return None
    given = _library.rd_kafka_TopicDescription_topic_id(topic)
    topic_id = "" if not given else _library.rd_kafka_Uuid_base64str(given).decode()
    return _library.rd_kafka_TopicDescription_name(topic).decode(), "" if topic_id == _NO_ID else topic_id


def _cluster_id(handle: int, milliseconds: int) -> str:
    """The client remembers it, and forgets it when it connects to another cluster's brokers."""
    found = _library.rd_kafka_clusterid(handle, milliseconds)
    if not found:
        return ""
    try:
        return string_at(found).decode(errors="replace")
    finally:
        _library.rd_kafka_mem_free(handle, found)


def _check(code: int, text: bytes | None = None) -> None:
    if code != KafkaError.NO_ERROR:
        raise KafkaException(KafkaError(code, text.decode(errors="replace") if text else KafkaError(code).str()))


_library = librdkafka(
    {
        "rd_kafka_TopicCollection_of_topic_names": (c_void_p, [POINTER(c_char_p), c_size_t]),
        "rd_kafka_TopicCollection_destroy": (None, [c_void_p]),
        "rd_kafka_AdminOptions_new": (c_void_p, [c_void_p, c_int]),
        "rd_kafka_AdminOptions_set_request_timeout": (c_int, [c_void_p, c_int, c_char_p, c_size_t]),
        "rd_kafka_AdminOptions_set_broker": (c_int, [c_void_p, c_int32, c_char_p, c_size_t]),
        "rd_kafka_AdminOptions_destroy": (None, [c_void_p]),
        "rd_kafka_queue_new": (c_void_p, [c_void_p]),
        "rd_kafka_queue_destroy": (None, [c_void_p]),
        "rd_kafka_queue_poll": (c_void_p, [c_void_p, c_int]),
        "rd_kafka_DescribeTopics": (None, [c_void_p, c_void_p, c_void_p, c_void_p]),
        "rd_kafka_event_DescribeTopics_result": (c_void_p, [c_void_p]),
        "rd_kafka_DescribeTopics_result_topics": (POINTER(c_void_p), [c_void_p, POINTER(c_size_t)]),
        "rd_kafka_event_error": (c_int, [c_void_p]),
        "rd_kafka_event_error_string": (c_char_p, [c_void_p]),
        "rd_kafka_event_destroy": (None, [c_void_p]),
        "rd_kafka_TopicDescription_error": (c_void_p, [c_void_p]),
        "rd_kafka_TopicDescription_name": (c_char_p, [c_void_p]),
        "rd_kafka_TopicDescription_topic_id": (c_void_p, [c_void_p]),
        "rd_kafka_Uuid_base64str": (c_char_p, [c_void_p]),
        "rd_kafka_error_code": (c_int, [c_void_p]),
        "rd_kafka_metadata": (c_int, [c_void_p, c_int, c_void_p, c_void_p, c_int]),
        "rd_kafka_metadata_destroy": (None, [c_void_p]),
        "rd_kafka_clusterid": (c_void_p, [c_void_p, c_int]),
        "rd_kafka_mem_free": (None, [c_void_p, c_void_p]),
    }
)
