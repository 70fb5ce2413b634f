"""Which data path the clients take that a test makes: both are tested in one process."""

from __future__ import annotations

from functools import cache

import pytest

from streamsapp import native
from streamsapp.native import build


@cache
def compiled() -> native.DataPath:
    """The native data path, whatever the environment says; skips the test where the machine has not what it
    needs. That it cannot be compiled or loaded is a failure."""
    try:
        return native._loaded(str(build.library()))
    except build.MissingError as error:
        pytest.skip(f"no native data path here: {error}")


def take(chosen: native.DataPath | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """``None`` is Python's."""
    monkeypatch.setattr(native, "data_path", lambda: chosen)
