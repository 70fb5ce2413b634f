"""Compiles the C sources of ``streamsapp.native`` into its extension module ``compiled``.

hatchling runs it wherever the project is built: for a wheel the module goes into that, for an editable install into the
tree. setuptools knows the compiler of this Python and its flags; ``CC`` and ``CFLAGS`` in the environment are heeded.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

MODULE = "streamsapp.native.compiled"
SOURCES = Path("runtime", "streamsapp", "native")
#: -flto: compiled as a whole. -g0: what debuggers need would make most of the file, and name the folder of the build.
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-DPY_SSIZE_T_CLEAN", "-O2", "-flto", "-DNDEBUG", "-g0", "-fvisibility=hidden")


class CompiledPart(BuildHookInterface[Any]):
    """Makes the wheel one for this Python and this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # Hidden: a test that walks through the tree meanwhile skips it.
        self._folder = TemporaryDirectory(prefix=".", dir=Path(self.root, SOURCES) if version == "editable" else None)
        module = compile_module(Path(self.root), Path(self._folder.name))
        if version == "editable":
            module.replace(Path(self.root, SOURCES, module.name))  # a process that has the one of before keeps it
        else:
            build_data["force_include"][str(module)] = f"streamsapp/native/{module.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()


def compile_module(root: Path, into: Path, flags: Sequence[str] = ()) -> Path:
    """Compiles the sources of the tree at ``root`` and returns the module's file. ``flags``: further ones, for compiler
    and linker. Raises ``SystemExit`` for a Python that it is not made for, and setuptools' errors."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise SystemExit(f"streamsapp is for CPython with its lock, and this is {sys.version}: take another Python")
    folder = root / SOURCES
    module = Extension(
        MODULE,
        sorted(str(path) for path in folder.rglob("*.c")),
        include_dirs=[str(folder)],
        extra_compile_args=[*FLAGS, *flags],
        extra_link_args=["-O2", "-flto", "-g0", *flags],
    )
    command = build_ext(Distribution({"name": "streamsapp", "ext_modules": [module]}))
    command.build_lib, command.build_temp = str(into), str(into / "objects")
    command.ensure_finalized()
    command.run()
    return Path(command.get_ext_fullpath(MODULE))
