"""Notices that the mounted Secret of ``spec.kafka.secretRef`` has other properties than this process has read.

Made on the main thread, before the configuration is; asked on threads of the HTTP server. The kubelet renews the files
of a mounted Secret within a minute or two. Certificates are read again by the clients that use them, so a renewed one
changes nothing here: of a certificate, the property is the path.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

from streamsapp.errors import ManifestError
from streamsapp.manifest.model import StreamsApp
from streamsapp.manifest.mounts import KAFKA_FOLDER, SECRETS_DIR, secret_properties

log = logging.getLogger(__name__)


class KafkaSecret:
    """The Secret as it was when the process began. No value of it is kept, and none is reported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = self._digest()
        #: The fault of the new content that was logged last.
        self._logged: str | None = None

    def has_changed(self) -> bool:
        """Says whether a process that begins now would have other properties. Content that cannot be used is logged and
        is no change: a process that begins with it would fail."""
        try:
            return self._digest() != self._read
        except (ManifestError, OSError) as error:
            if str(error) != self._logged:
                self._logged = str(error)
                log.warning("the Secret has changed and cannot be used, so it is left alone: %s", error)
            return False

    def _digest(self) -> str:
        """Raises ``ManifestError`` for files that are no properties, and ``OSError`` while they are being replaced."""
        properties = json.dumps(secret_properties(self._folder), sort_keys=True)
        return hashlib.sha256(properties.encode()).hexdigest()


def mounted_kafka_secret(app: StreamsApp, secret_dir: Path = SECRETS_DIR) -> KafkaSecret | None:
    """Returns the mounted Secret; ``None`` if the manifest names none, or it is not there, which is reported when the
    configuration is read. Raises ``ManifestError`` for files that are no properties."""
    folder = secret_dir / KAFKA_FOLDER
    return KafkaSecret(folder) if app.spec.kafka.secret_ref is not None and folder.is_dir() else None
