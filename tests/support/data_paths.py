"""Which data path the clients take that a test makes: both are tested in one process."""

from __future__ import annotations

import pytest

from streamsapp import native


def take(chosen: native.DataPath | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """``None`` is Python's."""
    monkeypatch.setattr(native, "data_path", lambda: chosen)
