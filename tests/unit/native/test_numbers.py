"""Whole numbers are written and read in C as ``struct`` does it; all else goes to the functions in Python."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp import Serdes
from streamsapp.native import NumberReader, NumberWriter

LAYOUTS = {"short": ">h", "integer": ">i", "long": ">q"}


@pytest.mark.parametrize("name", LAYOUTS)
@given(number=st.integers(-(1 << 66), 1 << 66) | st.sampled_from([(1 << b) + d for b in (15, 31, 63) for d in (-1, 0)]))
def test_a_whole_number_has_the_bytes_of_struct_or_is_refused(name: str, number: int) -> None:
    serde: Any = getattr(Serdes, name)()
    for each in (number, -number, number % 200):
        try:
            expected = struct.pack(LAYOUTS[name], each)
        except struct.error:
            with pytest.raises(ValueError, match=f"{each} does not fit {name}"):
                serde.serialize(each)
        else:
            assert serde.serialize(each) == expected
            assert serde.deserialize(expected) == each


@pytest.mark.parametrize("name", LAYOUTS)
@given(data=st.binary(max_size=9))
def test_any_other_bytes_are_refused_with_their_size(name: str, data: bytes) -> None:
    serde: Any = getattr(Serdes, name)()
    size = struct.calcsize(LAYOUTS[name])
    if len(data) == size:
        assert serde.serialize(serde.deserialize(data)) == data
    else:
        with pytest.raises(ValueError, match=f"{name} takes {size} bytes, got {len(data)}"):
            serde.deserialize(data)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, b"1"])
def test_what_is_no_int_is_left_to_python(value: Any) -> None:
    given_on: list[Any] = []

    def otherwise(value: Any) -> bytes:
        given_on.append(value)
        return b"otherwise"

    assert NumberWriter(size=8, otherwise=otherwise)(value) == b"otherwise"
    assert given_on == [value]


def test_what_is_not_exactly_bytes_is_left_to_python() -> None:
    read = NumberReader(size=2, otherwise=lambda data: bytes(data).hex())

    assert [read(each) for each in (b"\1\2", bytearray(b"\1\2"), memoryview(b"\1\2"), b"\1")] == [
        258,
        "0102",
        "0102",
        "01",
    ]


@pytest.mark.parametrize("size", [0, 9])
def test_no_number_has_such_a_size(size: int) -> None:
    with pytest.raises(ValueError, match="size is to be from 1 to 8"):
        NumberWriter(size=size, otherwise=bytes)


def test_a_call_that_is_no_serializers_is_left_to_python_which_refuses_it() -> None:
    def otherwise(value: Any) -> bytes:
        raise AssertionError

    functions: list[Any] = [
        NumberWriter(size=8, otherwise=otherwise),
        NumberReader(size=8, otherwise=otherwise),
    ]
    for function in functions:
        for arguments, named in (((), {}), ((1, 2), {}), ((), {"other": 1})):
            with pytest.raises(TypeError, match="otherwise"):
                function(*arguments, **named)
