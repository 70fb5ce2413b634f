"""The library that draws the charts is that of the npm package uplot 1.6.32, to the byte."""

from __future__ import annotations

import hashlib
from importlib.resources import files

import pytest

#: SHA-256 of the files in the package.
HASHES = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


@pytest.mark.parametrize("name", HASHES)
def test_a_file_is_the_published_one(name: str) -> None:
    found = files("streamsapp.web").joinpath("uplot", name).read_bytes()
    assert hashlib.sha256(found).hexdigest() == HASHES[name]


def test_it_makes_no_markup_of_texts_and_runs_none() -> None:
    text = files("streamsapp.web").joinpath("uplot", "uPlot.iife.min.js").read_text("utf-8")
    assert not any(each in text for each in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("))
