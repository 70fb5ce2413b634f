"""Every message in every version comes back as it was written; reading anything else raises, and takes only as much
memory as its bytes account for."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import product
from random import Random

import pytest

from broker_protocol import received
from messages_by_hand.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from random_messages import kinds, random_message
from streamsapp.brokers.codec import UnsupportedVersionError, Whole, decoded, encoded
from streamsapp.brokers.coordinators import GROUP, find_coordinator
from streamsapp.brokers.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from streamsapp.brokers.messages.find_coordinator import FindCoordinatorRequest
from streamsapp.brokers.messages.join_group import JoinGroupRequest, JoinGroupResponse
from streamsapp.brokers.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from streamsapp.brokers.messages.sasl_handshake import SaslHandshakeResponse
from streamsapp.brokers.request import Request

_ONES = pytest.mark.parametrize("kind", [pytest.param(each, id=each.__name__) for each in kinds()])
#: The errors for bytes that are no message.
_WRONG = (ValueError, struct.error)


def _versions(kind: type[Whole]) -> range:
    return range(kind.VERSIONS[0], kind.VERSIONS[1] + 1)


@_ONES
@pytest.mark.seeds(3)
def test_a_message_comes_back_as_it_was_written(kind: type[Whole], seed: int) -> None:
    random = Random(seed)
    for version in _versions(kind):
        for _ in range(10):
            message = random_message(kind, version, random)
            assert decoded(kind, encoded(message, version), version) == message


@_ONES
@pytest.mark.seeds(1)
def test_a_message_that_is_cut_is_none(kind: type[Whole], seed: int) -> None:
    random = Random(seed)
    for version in _versions(kind):
        whole = encoded(random_message(kind, version, random), version)
        for end in range(len(whole)):
            with pytest.raises(_WRONG):
                decoded(kind, whole[:end], version)
        with pytest.raises(_WRONG):
            decoded(kind, whole + b"\0", version)


@_ONES
@pytest.mark.seeds(1)
def test_a_damaged_message_raises_what_is_expected_or_is_another(kind: type[Whole], seed: int) -> None:
    random = Random(seed)
    for version in _versions(kind):
        whole = bytearray(encoded(random_message(kind, version, random), version))
        for place, damage in product(range(len(whole)), (0x01, 0x80, 0xFF)):
            harmed = whole.copy()
            harmed[place] ^= damage
            _read(kind, harmed, version)


@_ONES
@pytest.mark.seeds(1)
def test_noise_raises_what_is_expected_or_is_a_message(kind: type[Whole], seed: int) -> None:
    random = Random(seed)
    for version in _versions(kind):
        for size in range(60):
            _read(kind, bytes(random.choices((0, 1, 2, 3, 0x7F, 0x80, 0xFF), k=size)), version)


def _read(kind: type[Whole], data: bytes | bytearray, version: int) -> None:
    """A message that can be read can be written again."""
    try:
        found = decoded(kind, data, version)
    except _WRONG:
        return
    encoded(found, version)


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xfe"])
def test_what_an_array_announces_is_not_allocated(count: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="items in 3 bytes"):
            decoded(SaslHandshakeResponse, b"\0\0" + count + b"\0\0\0", 1)
        with pytest.raises(ValueError, match="items in"):  # compact
            decoded(JoinGroupResponse, bytes(10) + b"\1" * 5 + b"\xff\xff\xff\xff\x0f" + bytes(8), 9)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_an_array_has_bytes_for_each_item() -> None:
    """Its items would each take 6 bytes: as many as there are bytes cannot be."""
    with pytest.raises(ValueError, match="60 items in 66 bytes"):
        decoded(ApiVersionsResponse, b"\0\0" + struct.pack(">i", 60) + bytes(66), 0)


def test_a_text_that_is_no_utf8_raises() -> None:
    with pytest.raises(UnicodeDecodeError):
        decoded(SaslHandshakeResponse, b"\0\0\0\0\0\1\0\2\xc3\x28", 0)


def test_none_is_read_and_written_where_a_version_has_it_only() -> None:
    assert decoded(MetadataRequest, encoded(MetadataRequest(topics=None), 1), 1).topics is None
    with pytest.raises(ValueError, match="where the schema needs"):
        encoded(MetadataRequest(topics=None), 0)
    with pytest.raises(ValueError, match="where the schema needs"):
        decoded(MetadataRequest, b"\xff\xff\xff\xff", 0)
    topic = MetadataResponse(topics=[MetadataResponseTopic(name=None)])
    assert decoded(MetadataResponse, encoded(topic, 12), 12) == topic
    with pytest.raises(ValueError, match="where the schema needs"):
        encoded(topic, 11)


def test_a_version_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="MetadataResponse is known in versions 0 to 13, and not in 14"):
        decoded(MetadataResponse, b"", 14)
    with pytest.raises(ValueError, match="not in -1"):
        encoded(MetadataResponse(), -1)


def test_a_field_that_a_version_lacks_is_as_it_is_by_itself() -> None:
    topic = MetadataResponseTopic(name="t", topic_id=bytes(range(16)))
    read = decoded(MetadataResponse, encoded(MetadataResponse(cluster_id="c", topics=[topic]), 0), 0)
    assert (read.cluster_id, read.topics[0].topic_id) == (None, bytes(16))


def test_a_field_that_may_not_be_left_out_is_refused_by_a_version_that_lacks_it() -> None:
    """As Kafka's own classes do; a tagged one and one within a list likewise."""
    group = JoinGroupRequest(group_instance_id="pod-1")
    assert decoded(JoinGroupRequest, encoded(group, 5), 5).group_instance_id == "pod-1"
    with pytest.raises(UnsupportedVersionError, match=r"JoinGroupRequest\.group_instance_id is 'pod-1', .* version 4"):
        encoded(group, 4)
    with pytest.raises(UnsupportedVersionError, match=r"key is 'g', .* version 0 to 3 is needed\. Use"):
        encoded(FindCoordinatorRequest(key="g"), 4)
    part = PartitionData(diverging_epoch=EpochEndOffset(1, 5))
    with pytest.raises(UnsupportedVersionError, match=r"PartitionData\.diverging_epoch .* version 12 or a later one"):
        encoded(FetchResponse(responses=[FetchableTopicResponse("t", partitions=[part])]), 11)


def test_a_request_that_has_two_forms_is_sent_in_that_of_the_broker() -> None:
    request = find_coordinator(GROUP, "g")
    for version in range(1, 5):
        asked = received(request.encoded(version, 1, "c")[4:]).message
        assert (asked.key, asked.coordinator_keys) == (("g", []) if version < 4 else ("", ["g"]))


def test_each_message_has_lists_of_its_own() -> None:
    one, other = (decoded(MetadataResponse, encoded(MetadataResponse(), 1), 1) for _ in range(2))
    one.topics.append(MetadataResponseTopic())
    assert (other.topics, MetadataResponse().topics) == ([], [])


def test_tags_that_are_not_known_are_passed_over() -> None:
    written = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4)], finalized_features_epoch=7)
    data = encoded(written, 3)
    assert data.endswith(b"\1\1\x08" + struct.pack(">q", 7))
    longer = data[: -len(b"\1\1\x08") - 8] + b"\2\1\x08" + struct.pack(">q", 7) + b"\x63\3abc"
    assert decoded(ApiVersionsResponse, longer, 3) == written


def test_a_tag_takes_as_many_bytes_as_it_says() -> None:
    data = encoded(ApiVersionsResponse(finalized_features_epoch=7), 3)
    with pytest.raises(ValueError, match="tag 1 takes 8 bytes instead of 7"):
        decoded(ApiVersionsResponse, data.replace(b"\1\1\x08", b"\1\1\x07"), 3)


@pytest.mark.parametrize("version", range(5))
def test_the_answer_to_the_first_request_has_a_header_of_its_own(version: int) -> None:
    """It is never compact, so that a client reads it which does not know the broker yet."""
    request: Request[ApiVersionsResponse] = Request(ApiVersionsRequest("streamsapp", "1"))
    sent = request.encoded(version, 5, "client")
    assert struct.unpack_from(">ihhi", sent) == (len(sent) - 4, 18, version, 5)
    answer = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4)])
    assert request.decoded(struct.pack(">i", 5) + encoded(answer, version), version) == answer
