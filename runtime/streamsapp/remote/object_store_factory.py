"""Makes the object store that a configuration names. Called on the main thread, when an instance starts and by
commands; it connects to nothing yet."""

from __future__ import annotations

from pathlib import Path

from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.errors import ConfigError
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.object_store import ObjectStore


def open_store(config: RemoteStateConfig) -> ObjectStore:
    """Returns the store that ``config.url`` names; ``ObjectStore.probe`` says whether it can be used. Raises
    ``ConfigError`` for a bucket where the extra ``s3`` is missing."""
    if isinstance(config.location, Path):
        return DirectoryStore(config.location)
    try:
        from streamsapp.remote.s3_store import S3Store  # boto3 takes half a second to import
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"remote_state.url: {config.url} is in a bucket, and {error.name} is not installed: "
            "pip install 'streamsapp[s3]'"
        ) from error

    return S3Store(config)
