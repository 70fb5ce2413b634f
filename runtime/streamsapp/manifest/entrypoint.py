"""Finds a topology named ``module:attribute`` in the user's code.

Called by the command line. User code runs here: what it raises is told with the user's own line, without our frames.
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

from streamsapp.errors import ManifestError
from streamsapp.manifest.model import StreamsApp
from streamsapp.manifest.mounts import CODE_DIR
from streamsapp.topology.builder import Topology

FIELD = "spec.topology.entrypoint"


def load_topology(app: StreamsApp, folder: Path) -> Topology:
    """The topology of a manifest that lies in ``folder``; its inline files go first, mounted code last."""
    folders = [folder.resolve(), CODE_DIR]
    if app.spec.code.files:
        folders.insert(0, _write_files(app.spec.code.files))
    return load_entrypoint(app.spec.topology.entrypoint or "", folders, FIELD)


def load_entrypoint(entrypoint: str, folders: Sequence[Path], field: str) -> Topology:
    """``module:attribute`` looked up in ``folders`` and then where Python looks; ``field`` opens every message."""
    module_name, _, attribute = entrypoint.partition(":")
    if not module_name or not attribute:
        raise _fault(f"{field}: expected module:attribute, got {entrypoint!r}")
    sys.path[:0] = [str(folder) for folder in folders if str(folder) not in sys.path]
    module = _import(module_name, folders, field)
    try:
        found = attrgetter(attribute)(module)
    except AttributeError as error:
        names = ", ".join(name for name in vars(module) if not name.startswith("_")) or "nothing"
        raise _fault(
            f"{field}: module {module_name} ({getattr(module, '__file__', None)}) has no attribute {attribute!r}; "
            f"it defines {names}"
        ) from error
    return _as_topology(found, entrypoint, folders, field)


def _import(module_name: str, folders: Sequence[Path], field: str) -> Any:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            _blame_user_code(error, f"importing {module_name}", folders, field)
        looked = ", ".join(str(folder) for folder in folders if folder.is_dir())
        raise _fault(
            f"{field}: there is no module {module_name!r}; looked in {looked} and where Python looks"
        ) from error
    except Exception as error:  # anything the user's module raises is the user's to mend
        _blame_user_code(error, f"importing {module_name}", folders, field)


def _as_topology(found: Any, entrypoint: str, folders: Sequence[Path], field: str) -> Topology:
    """A topology, a builder of one, or a function of no arguments that returns either."""
    try:
        if callable(found) and not isinstance(found, Topology):
            found = found()
        built = found if isinstance(found, Topology) or not hasattr(found, "build") else found.build()
    except Exception as error:  # anything the user's function raises is the user's to mend
        _blame_user_code(error, f"building {entrypoint}", folders, field)
    if not isinstance(built, Topology):
        raise _fault(
            f"{field}: {entrypoint} gives {type(built).__name__}; "
            "expected a Topology, a StreamsBuilder, or a function without arguments that returns one of them"
        )
    return built


def _blame_user_code(error: Exception, doing: str, folders: Sequence[Path], field: str) -> NoReturn:
    raise _fault(f"{field}: {doing} raised {type(error).__name__}: {error}{_user_line(error, folders)}") from error


def _user_line(error: Exception, folders: Sequence[Path]) -> str:
    """The deepest line of the user's own code that was running, as `` (file:line)``."""
    if isinstance(error, SyntaxError):
        return ""  # its text names file and line
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if any(Path(frame.filename).is_relative_to(folder) for folder in folders):
            return f" ({frame.filename}:{frame.lineno})"
    return ""


def _write_files(files: dict[str, str]) -> Path:
    """Inline files into a folder that lives as long as the process: modules may be imported late."""
    folder = Path(tempfile.mkdtemp(prefix="streamsapp-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def _fault(text: str) -> ManifestError:
    return ManifestError([text])
