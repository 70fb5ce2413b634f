"""The folder in which downloads and compiled programs are kept between runs. Called on any thread."""

from __future__ import annotations

import os
from pathlib import Path

#: Names the folder itself.
CACHE_VARIABLE = "STREAMSAPP_CACHE"


def cache_dir() -> Path:
    """Returns the folder, which clones share: ``$STREAMSAPP_CACHE``, or ``streamsapp`` below ``$XDG_CACHE_HOME`` or
    ``~/.cache``."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "streamsapp"
