"""The application of a manifest on its way from the driver to Spark's Python workers.

Made on the driver; loaded in workers, where user code is imported then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from streamsapp.config import StreamsConfig
from streamsapp.manifest import StreamsApp
from streamsapp.manifest.entrypoint import UserCode, load_topology, user_code
from streamsapp.manifest.load import decode
from streamsapp.manifest.to_config import to_config
from streamsapp.topology.builder import Topology


@dataclass(frozen=True)
class ManifestProgram:
    """A manifest as JSON, and the folder that it lies in, where workers can see it too."""

    manifest: bytes
    folder: str
    #: Settings that its configuration has beside the manifest, by the names of ``StreamsConfig``.
    overrides: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, app: StreamsApp, folder: Path, overrides: Mapping[str, Any] | None = None) -> ManifestProgram:
        return cls(msgspec.json.encode(app), str(folder.resolve()), tuple((overrides or {}).items()))

    def load(self) -> tuple[Topology, StreamsConfig]:
        app, folder = decode(msgspec.json.decode(self.manifest)), Path(self.folder)
        code = only_code(app, folder)
        return load_topology(app, folder), to_config(app, code=code, **dict(self.overrides))


#: The code of manifests that this process has imported.
_imported: list[UserCode] = []


def only_code(app: StreamsApp, folder: Path) -> UserCode:
    """Returns the code of a manifest, and forgets what was imported for the one before: a worker serves many jobs, and
    another application, or another version, may have modules of the same names."""
    while _imported:
        _imported.pop().forget()
    _imported.append(user_code(app, folder))
    return _imported[0]
