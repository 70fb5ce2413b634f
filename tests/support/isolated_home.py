"""A home of the tests' own: files in a user's folders change no test, and no test leaves anything in them.

Called by tests/conftest.py before anything else is imported, in the process that the user starts; worker processes
inherit its settings. All that set-up has downloaded and built stays within reach, by variables that say where it is.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from streamsapp.cache_folder import CACHE_VARIABLE, cache_dir

#: Variables that name a user's folders, and the folders that they name in tests.
_FOLDERS = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "XDG_CACHE_HOME": "home/.cache",
    "XDG_CONFIG_HOME": "home/.config",
    "XDG_DATA_HOME": "home/.local/share",
    "XDG_STATE_HOME": "home/.local/state",
}
#: The earlier values of these variables, as JSON.
_BEFORE = "STREAMSAPP_TESTS_BEFORE"


def move_in() -> Path | None:
    """Let the environment name new, empty folders; returns the one they are in, or nothing where a parent process has
    done so and will remove it."""
    if _BEFORE in os.environ:
        return None
    folder = Path(tempfile.mkdtemp(prefix="streamsapp-tests-"))
    kept = _kept()
    os.environ[_BEFORE] = json.dumps({name: os.environ.get(name) for name in [*_FOLDERS, *kept]})
    os.environ.update(kept)
    for variable, name in _FOLDERS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        os.environ[variable] = str(folder / name)
    tempfile.tempdir = None  # it has been looked up
    return folder


def users_environment() -> dict[str, str]:
    """The environment as it was, for set-up that a test starts: it reads the user's settings and fills the caches."""
    before = json.loads(os.environ.get(_BEFORE, "{}"))
    others = {name: value for name, value in os.environ.items() if name not in before}
    return others | {name: value for name, value in before.items() if value is not None}


def _kept() -> dict[str, str]:
    """Returns the folders that outlive a run: that of downloads, and that in which pytest puts the folders of tests."""
    home = Path.home()
    kept = {
        CACHE_VARIABLE: str(cache_dir()),
        "PYTEST_DEBUG_TEMPROOT": tempfile.gettempdir(),
        "GOENV": str(Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "go" / "env"),
        "GOPATH": str(home / "go"),
        "GOCACHE": str(Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "go-build"),
    }
    return {name: os.environ.get(name, value) for name, value in kept.items()}
