"""Finds the topology of a manifest: one named ``module:attribute`` in the user's code, or a declared one.

Called on the main thread, by the command line and by the Spark part. User code runs here: its errors are reported with
the user's own line, without our frames.
"""

from __future__ import annotations

import atexit
import importlib
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

from streamsapp.config.topology_optimization import NONE, missing_fault, optimizations_of
from streamsapp.declared.build_graph import build_graph
from streamsapp.declared.build_steps import build_steps
from streamsapp.dsl.builder import StreamsBuilder
from streamsapp.errors import ManifestError, TopologyError
from streamsapp.manifest.load import load
from streamsapp.manifest.model import StreamsApp
from streamsapp.manifest.mounts import CODE_DIR
from streamsapp.manifest.settings import scheduling_of
from streamsapp.manifest.sink_faults import unwritten_faults
from streamsapp.topology.async_calls import refuse_calls
from streamsapp.topology.builder import Topology
from streamsapp.topology.scheduling import scheduling_fault

#: Packages that stay, wherever they lie.
_OWN = {"streamsapp", "streamsapp_spark", "streamsapp_operator", "pyspark_streamsapp"}


def read_app(path: Path) -> tuple[StreamsApp, Topology]:
    """The manifest and the topology it names, checked."""
    app = load(path)
    return app, read_topology(app, path.parent)


def read_topology(app: StreamsApp, folder: Path) -> Topology:
    """The topology of a manifest that lies in ``folder``, checked."""
    return checked(load_topology(app, folder), topology_field(app))


def checked(topology: Topology, field: str) -> Topology:
    """The topology if it is complete; a fault is reported under the name of the field that names it."""
    try:
        return topology.validate()
    except TopologyError as error:
        raise ManifestError([f"{field}: {error}"]) from error


def user_code(app: StreamsApp, folder: Path) -> UserCode:
    """The code of a manifest that lies in ``folder``; its inline files go first, mounted code last."""
    folders = [folder.resolve(), CODE_DIR]
    if app.spec.code.files:
        folders.insert(0, _write_files(tuple(app.spec.code.files.items())))
    return UserCode(folders)


def load_topology(app: StreamsApp, folder: Path) -> Topology:
    """The topology of a manifest that lies in ``folder``."""
    built = _load_topology(app, folder)
    fault = built.naming_fault() if app.spec.processing.ensure_explicit_internal_resource_naming else None
    if fault is not None:
        raise _fault(f"spec.processing.ensureExplicitInternalResourceNaming: {fault}")
    if app.spec.engine == "spark":
        try:
            refuse_calls(built)
        except TopologyError as error:
            raise _fault(f"spec.engine: spark: {error}") from error
    _check_scheduling(app, built)
    for fault in unwritten_faults(app.spec.spark.sinks, "spec.spark.sinks", built):
        raise _fault(fault)
    return built.with_store_format(app.spec.processing.dsl_store_format)


def _check_scheduling(app: StreamsApp, topology: Topology) -> None:
    entries = scheduling_of(app)
    if entries and app.spec.engine == "spark":
        raise _fault("spec.processing.scheduling: Spark schedules the tasks of a batch itself; leave this out")
    fault = scheduling_fault(entries, checked(topology, topology_field(app)).sub_topologies()) if entries else None
    if fault is not None:
        raise _fault(f"spec.processing.scheduling[{fault[0]}]: {fault[1]}")


def _load_topology(app: StreamsApp, folder: Path) -> Topology:
    code, field, topology = user_code(app, folder), topology_field(app), app.spec.topology
    optimize = app.spec.processing.topology_optimization
    if topology.steps is not None:
        return build_steps(topology.steps, field, code, optimize=optimize)
    if topology.graph is not None:
        if optimizations_of(optimize):
            raise _fault("spec.processing.topologyOptimization: a graph is run as it is written; leave this out")
        return build_graph(topology.graph, field, code)
    return load_entrypoint(topology.entrypoint or "", code, field, optimize=optimize)


def topology_field(app: StreamsApp) -> str:
    """The field that a manifest has its topology in."""
    topology = app.spec.topology
    declared = [name for name in ("steps", "graph") if getattr(topology, name) is not None]
    return f"spec.topology.{(declared or ['entrypoint'])[0]}"


def load_entrypoint(entrypoint: str, code: UserCode, field: str, *, optimize: str = NONE) -> Topology:
    """Loads the object that ``module:attribute`` names; ``field`` opens every message."""
    return _as_topology(code.find(entrypoint, field), entrypoint, code, field, optimize)


class UserCode:
    """The user's code that a manifest names."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    def find(self, name: str, field: str) -> Any:
        """``module:attribute`` looked up in the folders and then where Python looks."""
        module_name, _, attribute = name.partition(":")
        if not module_name or not attribute:
            raise _fault(f"{field}: expected module:attribute, got {name!r}")
        if module_name.endswith(".py"):
            module = module_name.removesuffix(".py").replace("/", ".")
            raise _fault(f"{field}: expected module:attribute, got {name!r}; leave .py out: {module}:{attribute}")
        sys.path[:0] = [str(folder) for folder in self._folders if str(folder) not in sys.path]
        module = _import(module_name, self._folders, field)
        try:
            return attrgetter(attribute)(module)
        except AttributeError as error:
            names = ", ".join(name for name in vars(module) if not name.startswith("_")) or "nothing"
            raise _fault(
                f"{field}: module {module_name} ({getattr(module, '__file__', None)}) has no attribute {attribute!r}; "
                f"it defines {names}"
            ) from error
        except (Exception, SystemExit) as error:  # of a property of the user's
            _blame_user_code(error, f"looking up {name}", self._folders, field)

    def forget(self) -> None:
        """Takes the code out of Python's modules, so that other code of the same names can be loaded. Objects that
        were made of it go on."""
        folders = [str(folder) for folder in self._folders]
        for name in [name for name in sys.modules if _folder_of(name) in folders]:
            del sys.modules[name]
        sys.path[:] = [each for each in sys.path if each not in folders]

    def run(self, function: Callable[[], Any], doing: str, field: str) -> Any:
        """Returns what the function returns; an error that it raises is reported with the user's line."""
        try:
            return function()
        except ManifestError:
            raise
        except (Exception, SystemExit) as error:  # anything the user's function raises is the user's to mend
            _blame_user_code(error, doing, self._folders, field)


def _folder_of(module_name: str) -> str | None:
    """The folder that Python found a module in, with the packages around it; ``None`` for our own modules."""
    package = module_name.partition(".")[0]
    found = getattr(sys.modules.get(package), "__spec__", None)
    if found is None or package in _OWN:
        return None
    if found.submodule_search_locations is not None:
        return next((str(Path(each).parent) for each in found.submodule_search_locations), None)
    return str(Path(found.origin).parent) if found.has_location and found.origin else None


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
    except (Exception, SystemExit) as error:  # anything the user's module raises is the user's to mend
        _blame_user_code(error, f"importing {module_name}", folders, field)


def _as_topology(found: Any, entrypoint: str, code: UserCode, field: str, optimize: str) -> Topology:
    """A topology, a builder of one, or a function of no arguments that returns either."""

    def build() -> Any:
        made = found() if callable(found) and not isinstance(found, Topology) else found
        if isinstance(made, StreamsBuilder):
            return made.build(optimize=optimize)
        return made if isinstance(made, Topology) or not hasattr(made, "build") else made.build()

    built = code.run(build, f"building {entrypoint}", field)
    if not isinstance(built, Topology):
        raise _fault(
            f"{field}: {entrypoint} gives {type(built).__name__}; "
            "expected a Topology, a StreamsBuilder, or a function without arguments that returns one of them"
        )
    fault = missing_fault(optimize, built.optimized)
    if fault is not None:
        raise _fault(f"spec.processing.topologyOptimization: {fault}, or let {entrypoint} return the StreamsBuilder")
    return built


def _blame_user_code(error: BaseException, doing: str, folders: Sequence[Path], field: str) -> NoReturn:
    line = _user_line(error, folders)
    if isinstance(error, SystemExit):
        guard = 'put what runs as a program under `if __name__ == "__main__":`'
        raise _fault(f"{field}: {doing} ended Python with sys.exit({_shown(error.code)}){line}; {guard}") from error
    raise _fault(f"{field}: {doing} raised {type(error).__name__}: {error}{line}{_java_hint(error)}") from error


def _shown(code: object) -> str:
    return "" if code is None else f"{code!r:.200}"


#: Java that is no Python, as it stands in a line that could not be read.
_JAVA = (
    (
        re.compile(r"\.(with|as)\s*\("),
        "options are made by their class: Consumed(key_serde, value_serde), Materialized(name)",
    ),
    (re.compile(r"\)\s*->|\w\s*->"), "a function is written lambda key, value: ..., or with def"),
    (re.compile(r"\bnew\s+\w+"), "an object is made without new: StreamsBuilder()"),
)


def _java_hint(error: BaseException) -> str:
    line = (error.text or "") if isinstance(error, SyntaxError) else ""
    return next((f"; {hint}" for java, hint in _JAVA if java.search(line)), "")


def _user_line(error: BaseException, folders: Sequence[Path]) -> str:
    """The deepest line of the user's own code that was running, as `` (file:line)``."""
    if isinstance(error, SyntaxError):
        return ""  # its text names file and line
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if any(Path(frame.filename).is_relative_to(folder) for folder in folders):
            return f" ({frame.filename}:{frame.lineno})"
    return ""


@lru_cache(maxsize=8)
def _write_files(files: tuple[tuple[str, str], ...]) -> Path:
    """Inline files into a folder that lives as long as the process: modules may be imported late."""
    folder = Path(tempfile.mkdtemp(prefix="streamsapp-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, text in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def _fault(text: str) -> ManifestError:
    return ManifestError([text])
