"""The C sources include what they use, in one direction."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from check_c import NATIVE

HEADERS = sorted(NATIVE.rglob("*.h"))
SOURCES = sorted(NATIVE.rglob("*.c"))
#: A folder includes only itself and those before it.
FOLDERS = ("base", "values", "tls", "format", "cells", "fetch", "outbox", "push")


def included(path: Path) -> list[str]:
    return re.findall(r'^#include "(.+)"', path.read_text("utf-8"), re.MULTILINE)


def folder_of(path: Path) -> str:
    return path.relative_to(NATIVE).parts[0]


def test_there_is_no_circle_among_headers() -> None:
    left = {str(path.relative_to(NATIVE)): set(included(path)) for path in HEADERS}
    while ready := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in ready}
    assert left == {}


@pytest.mark.parametrize("path", [*HEADERS, *SOURCES], ids=lambda path: str(path.relative_to(NATIVE)))
def test_a_folder_includes_only_those_before_it(path: Path) -> None:
    if path.parent == NATIVE:
        return  # the module, which has all
    place = FOLDERS.index(folder_of(path))
    assert {name.partition("/")[0] for name in included(path)} <= set(FOLDERS[: place + 1])


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(NATIVE)))
def test_a_source_begins_with_its_own_header_so_that_it_needs_nothing_before_it(path: Path) -> None:
    own = path.with_suffix(".h")
    assert not own.exists() or included(path)[0] == str(own.relative_to(NATIVE))


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: str(path.relative_to(NATIVE)))
def test_a_header_opens_with_a_comment_and_is_guarded(path: Path) -> None:
    guard = "SA_" + "_".join(path.relative_to(NATIVE).with_suffix("").parts).upper() + "_H"
    assert re.match(rf"/\* .+?\*/\n#ifndef {guard}\n#define {guard}\n", path.read_text("utf-8"), re.DOTALL)
