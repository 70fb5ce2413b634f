"""Reads the user's Python that lies beside the image, and names the keys under which a ConfigMap holds it.

Called for each reconcile of an application; pure. A ConfigMap is what the API server gave, as a plain document.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from streamsapp.errors import ManifestError
from streamsapp.manifest.model import StreamsApp

#: Path below the folder of code → text, or bytes that are not text.
CodeFiles: TypeAlias = Mapping[str, str | bytes]

_KEY_PREFIX = "code."


def code_files(app: StreamsApp, config_map: Mapping[str, Any] | None) -> dict[str, str | bytes]:
    """Returns the files of ``spec.code``; ``config_map`` is the one it refers to, ``None`` if there is none.

    A file that is written in the manifest wins over one of the same name in the ConfigMap.
    """
    reference = app.spec.code.config_map_ref
    if reference is None:
        return dict(app.spec.code.files)
    if config_map is None:
        fault = f"there is no ConfigMap {reference.name!r} in this namespace; create it, or put the code into"
        raise ManifestError([f"spec.code.configMapRef.name: {fault} spec.code.files"])
    binary = {name: base64.b64decode(text) for name, text in (config_map.get("binaryData") or {}).items()}
    return binary | (config_map.get("data") or {}) | app.spec.code.files


def key_of(path: str) -> str:
    """Returns the key of a path. A ConfigMap's keys have neither slashes nor blanks; different paths have different
    keys."""
    return _KEY_PREFIX + re.sub(r"[^A-Za-z0-9_.]", lambda found: _escaped(found[0]), path)


def _escaped(character: str) -> str:
    return "".join(f"-{byte:02x}" for byte in character.encode("utf-8"))
