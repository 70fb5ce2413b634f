"""Says when the files of TLS were renewed: librdkafka's clients read them once, and have to be made anew.

Asked by each client's owner, on its thread.
"""

from __future__ import annotations

import logging

from streamsapp.brokers.tls import client_tls, tls_files
from streamsapp.config.client_properties import ClientProperties
from streamsapp.errors import ConfigError

log = logging.getLogger(__name__)


class TlsRenewal:
    """The files that a client was made with."""

    def __init__(self, properties: ClientProperties) -> None:
        """Call before the client is made."""
        secure = str(properties.get("security.protocol", "")).upper().endswith("SSL")
        self._properties = {key: str(value) for key, value in properties.items()} if secure else {}
        self._files = tls_files(self._properties)

    def due(self) -> bool:
        """True, once, when the files were renewed and can be used; looks at them every few seconds."""
        if not self._files.renewed_by_now():
            return False
        files = tls_files(self._properties)
        try:
            client_tls(self._properties)
        except ConfigError as error:
            log.warning("TLS: files were renewed and cannot be used: %s; those before stay in use", error)
            return False
        self._files = files
        return True
