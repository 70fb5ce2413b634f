"""Makes the object store that a configuration names. Called on the main thread, when an instance starts and by
commands; it connects to nothing yet."""

from __future__ import annotations

from pathlib import Path

from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.object_store import ObjectStore


def open_store(config: RemoteStateConfig) -> ObjectStore:
    """The store that ``config.url`` names; ``ObjectStore.probe`` tells whether it can be used."""
    if isinstance(config.location, Path):
        return DirectoryStore(config.location)
    from streamsapp.remote.s3_store import S3Store  # boto3 takes half a second to import

    return S3Store(config)
