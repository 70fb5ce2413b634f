"""A manifest is believed only if every bit of it is as it was written and everything in it is reasonable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from checkpoints import APPLICATION, TASK, WRITER, a_file, a_snapshot
from streamsapp.record import TaskId
from streamsapp.remote import snapshot as snapshot_module
from streamsapp.remote.snapshot import (
    Snapshot,
    SnapshotInvalidError,
    decode,
    encode,
    is_file_name,
    milliseconds,
    object_name,
    object_number,
    timestamp,
)


def decoded(data: bytes) -> Snapshot:
    return decode(data, APPLICATION, TASK, 2)


def sealed(body: bytes) -> bytes:
    """A document as an attacker writes it who knows how the seal is made."""
    return body[:-1] + b',"sha256":"' + hashlib.sha256(body).hexdigest().encode() + b'"}'


def forged(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A sealed document in which something was changed."""
    document = msgspec.json.decode(msgspec.json.encode(a_snapshot()))
    change(document)
    return sealed(json.dumps(document).encode())


def test_what_was_written_is_read_again() -> None:
    assert decoded(encode(a_snapshot())) == a_snapshot()


def test_the_document_is_json_whose_names_are_those_of_the_other_formats() -> None:
    document = json.loads(encode(a_snapshot()))

    assert document["applicationId"] == APPLICATION
    assert document["task"] == "0_3"
    assert document["stores"]["counts"]["topicId"] == "id-of-topic"
    assert list(document)[-1] == "sha256"


def test_a_snapshot_tells_what_it_holds_and_what_was_new() -> None:
    files = (a_file(data=b"12345", number=1), a_file("000009.sst", b"123", number=2))
    snapshot = a_snapshot(files=files)

    assert snapshot.total_bytes == 8
    assert snapshot.new_bytes == 3
    assert snapshot.claim_id == f"1-{WRITER}"
    assert snapshot.task_id == TASK


def test_no_bit_of_a_document_can_flip_unnoticed() -> None:
    document = encode(a_snapshot())

    for place in range(len(document)):
        for bit in range(8):
            flipped = bytearray(document)
            flipped[place] ^= 1 << bit
            with pytest.raises(SnapshotInvalidError, match="snapshot 2 of task 0_3"):
                decoded(bytes(flipped))


def test_no_document_that_was_cut_off_or_lengthened_is_believed() -> None:
    document = encode(a_snapshot())

    for length in range(len(document)):
        with pytest.raises(SnapshotInvalidError, match="damaged"):
            decoded(document[:length])
    with pytest.raises(SnapshotInvalidError, match="damaged"):
        decoded(document + b" ")


@pytest.mark.parametrize(
    ("application_id", "task_id", "number"),
    [("other", TASK, 2), (APPLICATION, TaskId(0, 4), 2), (APPLICATION, TASK, 3)],
)
def test_a_manifest_in_the_place_of_another_is_refused(application_id: str, task_id: TaskId, number: int) -> None:
    with pytest.raises(SnapshotInvalidError, match="number 2 of task 0_3 of 'orders', which somebody put here"):
        decode(encode(a_snapshot()), application_id, task_id, number)


@pytest.mark.parametrize(
    "name",
    [
        "../../x",
        "CURRENT/../../x",
        "/etc/passwd",
        "000008.sst\n",
        "000008.sst/",
        "",
        ".",
        "..",
        "LOCK",
        "000004.log",
        "rocksdict-config.json",
        "CURRENT\x00",
        "current",
        "8.sst",
        "MANIFEST-",
        "\u0660" * 6 + ".sst",
        "9" * 5000 + ".sst",
    ],
)
def test_only_names_of_rocksdbs_files_are_accepted(name: str) -> None:
    def rename(document: dict[str, Any]) -> None:
        file = document["files"][0]
        file["name"] = name
        file["object"] = object_name(f"1-{WRITER}", 2, name, file["sha256"])

    assert not is_file_name(name)
    with pytest.raises(SnapshotInvalidError):
        decoded(forged(rename))


@pytest.mark.parametrize(
    "name",
    [
        "files/../../../other/0_3/files/1-0123456789abcdef/2-3a6eb0790f39ac87-000008.sst",
        "../0_4/files/1-0123456789abcdef/2-3a6eb0790f39ac87-000008.sst",
        "manifests/0000000000000001.json",
        "files/1-0123456789abcdef/2-3a6eb0790f39ac87-000009.sst",
        "files/1-0123456789abcdef/2-0000000000000000-000008.sst",
        "files/1-0123456789abcdef/2-3a6eb0790f39ac87-000008.sst\n",
        "files/0-0123456789abcdef/2-3a6eb0790f39ac87-000008.sst",
        "https://elsewhere/000008.sst",
        "",
    ],
)
def test_only_objects_of_the_tasks_own_files_are_accepted(name: str) -> None:
    with pytest.raises(SnapshotInvalidError, match=r"none of a file 000008\.sst"):
        decoded(forged(lambda document: document["files"][0].update(object=name)))


@pytest.mark.parametrize("later", [(f"2-{WRITER}", 2), (f"1-{WRITER}", 3)])
def test_an_object_of_a_later_snapshot_is_refused(later: tuple[str, int]) -> None:
    file = a_file()
    name = object_name(*later, file.name, file.sha256)

    with pytest.raises(SnapshotInvalidError, match="is of a later snapshot"):
        decoded(forged(lambda document: document["files"][0].update(object=name)))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda d: d.update(version=2), "version"),
        (lambda d: d.update(surprise=1), "surprise"),
        (lambda d: d["files"][0].update(mode="0777"), "mode"),
        (lambda d: d["files"][0].update(size=-1), "size"),
        (lambda d: d["files"][0].update(size=1e3), "int"),
        (lambda d: d["files"][0].update(size=10 * 2**40), "10995116277"),
        (lambda d: d["files"][0].update(size=2**64), r"files\[0\]\.size"),
        (lambda d: d["files"][0].update(sha256="A" * 64), "sha256"),
        (lambda d: d["files"].append(d["files"][0]), "000008.sst is there twice"),
        (lambda d: d["files"].pop(1), "CURRENT and MANIFEST-"),
        (lambda d: d["files"].pop(2), "CURRENT and MANIFEST-"),
        (lambda d: d.update(number=0), "number"),
        (lambda d: d.update(epoch=3), "epoch 3 is above its number"),
        (lambda d: d.update(writer="../../x"), "writer"),
        (lambda d: d.update(createdAt="2026-13-41T99:00:00.000Z"), "no time"),
        (lambda d: d.update(createdAt="yesterday"), "createdAt"),
        (lambda d: d.update(instance="x" * 1001), "instance"),
        (lambda d: d["stores"]["counts"].update(offset=-1), "offset"),
        (lambda d: d["stores"]["counts"].update(changelog="../x"), "changelog"),
        (lambda d: d["inputs"][0].update(partition="3"), "partition"),
        (lambda d: d["inputs"][0].update(offset=None), "offset"),
        (lambda d: d.pop("files"), "files"),
        (lambda d: d.update(stores={str(number): d["stores"]["counts"] for number in range(1001)}), "stores"),
    ],
)
def test_says_what_is_wrong_with_a_forged_document(change: Callable[[dict[str, Any]], object], found: str) -> None:
    with pytest.raises(SnapshotInvalidError, match=found):
        decoded(forged(change))


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"null}",
        b"\xff\xfe}",
        b'{"task":"\xff"}',
        b'{"stores":' + b'{"a":' * 100_000 + b"}",
        b"[" * 1_000_000 + b"}",
        b'{"files":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"number":' + b"9" * 1_000_000 + b"}",
    ],
)
def test_what_is_no_manifest_at_all_is_refused_even_with_its_seal(body: bytes) -> None:
    with pytest.raises(SnapshotInvalidError, match="snapshot 2 of task 0_3"):
        decoded(sealed(body))


def test_a_huge_document_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "DOCUMENT_LIMIT", 100)

    with pytest.raises(SnapshotInvalidError, match="bytes, at most 100 are read"):
        decoded(encode(a_snapshot()))


def test_a_snapshot_of_as_many_files_as_allowed_fits_into_the_limit_of_documents() -> None:
    tables = tuple(a_file(f"{number:020d}.sst", number=10**16 - 1) for number in range(1000))

    assert len(encode(a_snapshot(files=tables))) < snapshot_module.DOCUMENT_LIMIT // 100


@given(st.binary(max_size=300))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(SnapshotInvalidError):
        decoded(noise)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, child in inner for deeper in places(child, (*path, key)))]


PLACES = places(msgspec.to_builtins(a_snapshot(), builtin_types=[]))[1:]


@given(st.sampled_from(PLACES), anything)
def test_whatever_is_put_anywhere_is_refused_or_harmless(place: tuple[Any, ...], value: Any) -> None:
    def put(document: Any) -> None:
        for key in place[:-1]:
            document = document[key]
        document[place[-1]] = value

    with suppress(SnapshotInvalidError):
        snapshot = decoded(forged(put))
        assert all(is_file_name(file.name) and file.object.startswith("files/1-") for file in snapshot.files)
        assert decoded(encode(snapshot)) == snapshot


@given(st.integers(min_value=0, max_value=4_000_000_000_000))
def test_times_are_read_as_they_are_written(moment: int) -> None:
    assert milliseconds(timestamp(moment)) == moment


def test_times_are_iso_8601_with_milliseconds() -> None:
    assert timestamp(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"


def test_an_object_tells_the_number_it_was_uploaded_for() -> None:
    assert object_number(object_name(f"7-{WRITER}", 12, "000008.sst", "f" * 64)) == 12
    assert object_number("files/readme.txt") is None
