"""TLS for a connection, by librdkafka's names of properties, in the compiled part: with OpenSSL, but without Python's
``ssl``.

Pure but for reading key files. Made on the polling thread; ``RenewedTls`` is asked on the threads that open
connections.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamsapp import native
from streamsapp.errors import ConfigError
from streamsapp.renewed_files import RenewedFiles

log = logging.getLogger(__name__)

#: The properties that are known.
TLS_PROPERTIES = frozenset({
    "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
    "ssl.key.pem", "ssl.key.password", "ssl.crl.location", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
})  # fmt: skip

#: The replacements for settings that are not read here.
_INSTEAD = {
    "ssl.keystore.location": "convert it to PEM and set ssl.certificate.location and ssl.key.location",
    "ssl.keystore.password": "convert the key store to PEM and set ssl.key.location and ssl.key.password",
}


#: Name files that others may renew.
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location")


@dataclass(frozen=True)
class ClientTls:
    """TLS with the files as they were at a time."""

    context: native.TlsContext
    #: Says whether brokers have to prove that they have the name by which they are reached.
    checks_names: bool

    def connection(self, descriptor: int, name: str) -> native.Tls:
        """Over the socket of this descriptor, to a broker of this name."""
        return self.context.connection(descriptor=descriptor, name=name, checked=self.checks_names)


class RenewedTls:
    """TLS with the files as they are when a connection is made. Files that cannot be used wait: the next connection
    reads them again, and a certificate without its key is just being renewed."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Raises ``ConfigError`` as ``client_tls`` does."""
        self._properties = properties
        self._files = tls_files(properties)
        self._current = client_tls(properties)

    def current(self) -> ClientTls:
        """For a new connection."""
        if self._files.renewed():
            before = self._files
            self._files = tls_files(self._properties)
            try:
                self._current = client_tls(self._properties)
                log.info("TLS: %s were renewed; new connections use them", self._files)
            except ConfigError as error:
                self._files = before
                log.warning("TLS: files were renewed and cannot be used: %s; those before stay in use", error)
        return self._current


def refused_tls(error: BaseException) -> str | None:
    """The reason why either side refused a TLS connection, with the remedy; ``None`` if none did. Under TLS 1.3 a
    broker may say so after the handshake, with the first answer."""
    if not isinstance(error, native.TlsError):
        return None
    reason, unbelieved = error.args
    if unbelieved:
        remedy = _NAME_REMEDY if "ostname" in unbelieved or "IP address" in unbelieved else _CA_REMEDY
        return f"its certificate is not believed ({unbelieved}); {remedy}"
    if "alert" in reason:
        return f"it refuses this client by TLS ({reason}); {_CLIENT_REMEDY}"
    return f"TLS failed ({reason}); {_PROTOCOL_REMEDY}"


_CA_REMEDY = "renew it, or name its authority in ssl.ca.location"
_NAME_REMEDY = "correct bootstrap_servers or the names in the broker's certificate"
_CLIENT_REMEDY = (
    "renew the certificate and key of ssl.certificate.location and ssl.key.location, which are read for each new"
    " connection, or have the brokers trust their authority"
)
_PROTOCOL_REMEDY = "check security.protocol, and that the address is that of a listener with TLS"


def tls_files(properties: Mapping[str, object]) -> RenewedFiles:
    """The files that TLS reads."""
    given = [str(properties[key]) for key in _FILES if key in properties]
    return RenewedFiles(each for each in given if each != "probe")


def client_tls(properties: Mapping[str, str]) -> ClientTls:
    """Raises ``ConfigError`` for what cannot be read or done."""
    for key in properties:
        if key.startswith("ssl.") and key not in TLS_PROPERTIES:
            remedy = _INSTEAD.get(key, "leave it out")
            raise ConfigError(f"kafka property {key!r} cannot be used here: {remedy}")
    verified = properties.get("enable.ssl.certificate.verification", "true").lower() != "false"
    try:
        context = native.TlsContext(verified=verified)
    except ImportError as error:
        raise ConfigError(f"security.protocol: TLS cannot be had here: {error}") from error
    if "ssl.cipher.suites" in properties:
        with _named("ssl.cipher.suites"):
            context.use_ciphers(properties["ssl.cipher.suites"])
    _trust(context, properties)
    _identify(context, properties)
    named = properties.get("ssl.endpoint.identification.algorithm", "https") != "none"
    return ClientTls(context, verified and named)


def _trust(context: native.TlsContext, properties: Mapping[str, str]) -> None:
    """Load the authorities whose certificates are believed; the system's unless some are named."""
    if "ssl.ca.pem" in properties:
        with _named("ssl.ca.pem"), _file(properties, "ssl.ca") as file:
            context.trust(file, None)
    elif (location := properties.get("ssl.ca.location", "probe")) == "probe":
        context.trust(None, None)
    else:
        with _named("ssl.ca.location"):
            is_folder = Path(location).is_dir()
            context.trust(None if is_folder else location, location if is_folder else None)
    if "ssl.crl.location" in properties:
        with _named("ssl.crl.location"):
            context.check_revoked(properties["ssl.crl.location"])


def _identify(context: native.TlsContext, properties: Mapping[str, str]) -> None:
    """The certificate this client shows, if it has one."""
    with (
        _named("ssl.certificate.location"),
        _file(properties, "ssl.certificate") as certificate,
        _file(properties, "ssl.key") as key,
    ):
        if certificate is not None:
            context.show(
                certificate=certificate,
                key=key or certificate,
                password=properties.get("ssl.key.password", "").encode(),
            )
        elif key is not None:
            raise ConfigError("ssl.key.location: a key needs its certificate; set ssl.certificate.location")


@contextmanager
def _file(properties: Mapping[str, str], name: str) -> Iterator[str | None]:
    """The file of a certificate or key; one given as text becomes a file for a moment, readable by this user only."""
    text = properties.get(f"{name}.pem")
    if text is None:
        yield properties.get(f"{name}.location")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(text)
        file.flush()
        yield file.name


@contextmanager
def _named(key: str) -> Iterator[None]:
    try:
        yield
    except native.TlsError as error:
        raise ConfigError(f"{key}: cannot be used: {error.args[0]}") from error
    except (OSError, ValueError) as error:  # ValueError: of a path that is none
        raise ConfigError(f"{key}: cannot be used: {error}") from error
