"""TLS for a connection, by librdkafka's names of properties.

Pure but for reading key files. Made on the polling thread; ``RenewedTls`` is asked on the connection's.
"""

from __future__ import annotations

import logging
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from streamsapp.errors import ConfigError
from streamsapp.renewed_files import RenewedFiles

log = logging.getLogger(__name__)

#: The properties that are known.
TLS_PROPERTIES = frozenset({
    "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
    "ssl.key.pem", "ssl.key.password", "ssl.crl.location", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
})  # fmt: skip

#: The replacements for settings that Python's TLS cannot read.
_INSTEAD = {
    "ssl.keystore.location": "convert it to PEM and set ssl.certificate.location and ssl.key.location",
    "ssl.keystore.password": "convert the key store to PEM and set ssl.key.location and ssl.key.password",
}


#: Name files that others may renew.
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.crl.location")


class RenewedTls:
    """TLS with the files as they are when a connection is made. Those that cannot be used wait: the next connection
    reads them again, and a certificate without its key is just being renewed."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Raises ``ConfigError`` as ``tls_context`` does."""
        self._properties = properties
        self._files = tls_files(properties)
        self._context = tls_context(properties)

    def context(self) -> ssl.SSLContext:
        """For a new connection."""
        if self._files.renewed():
            before = self._files
            self._files = tls_files(self._properties)
            try:
                self._context = tls_context(self._properties)
                log.info("TLS: %s were renewed; new connections use them", self._files)
            except ConfigError as error:
                self._files = before
                log.warning("TLS: files were renewed and cannot be used: %s; those before stay in use", error)
        return self._context


def refused_tls(error: BaseException) -> str | None:
    """The reason why either side refused a TLS connection, with the remedy; ``None`` if none did. Under TLS 1.3 a
    broker may say so after the handshake, with the first answer."""
    found: BaseException | None = error
    for _ in range(_CAUSES):
        if isinstance(found, ssl.SSLError) or found is None:
            break
        inner = next((each for each in found.args if isinstance(each, BaseException)), None)
        found = inner or found.__cause__
    if not isinstance(found, ssl.SSLError) or isinstance(found, _NOT_REFUSED):
        return None
    reason = found.reason or ""
    if isinstance(found, ssl.SSLCertVerificationError):
        remedy = (
            _NAME_REMEDY if "ostname" in found.verify_message or "IP address" in found.verify_message else _CA_REMEDY
        )
        return f"its certificate is not believed ({found.verify_message}); {remedy}"
    if "ALERT" in reason:
        return f"it refuses this client by TLS ({reason.lower().replace('_', ' ')}); {_CLIENT_REMEDY}"
    return f"TLS failed ({reason.lower().replace('_', ' ') or found}); {_PROTOCOL_REMEDY}"


_NOT_REFUSED = (ssl.SSLWantReadError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
#: Errors that have one another for a cause, at most.
_CAUSES = 8
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


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Raises ``ConfigError`` for what cannot be read or done."""
    for key in properties:
        if key.startswith("ssl.") and key not in TLS_PROPERTIES:
            remedy = _INSTEAD.get(key, "leave it out")
            raise ConfigError(f"kafka property {key!r} cannot be used for the group membership: {remedy}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != "none"
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if "ssl.cipher.suites" in properties:
        with _named("ssl.cipher.suites"):
            context.set_ciphers(properties["ssl.cipher.suites"])
    _trust(context, properties)
    _identify(context, properties)
    return context


def _trust(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Load the authorities whose certificates are believed; the system's unless some are named."""
    location = properties.get("ssl.ca.location", "probe")
    if "ssl.ca.pem" in properties:
        with _named("ssl.ca.pem"):
            context.load_verify_locations(cadata=properties["ssl.ca.pem"])
    elif location == "probe":
        context.load_default_certs()
    else:
        with _named("ssl.ca.location"):
            if Path(location).is_dir():
                context.load_verify_locations(capath=location)
            else:
                context.load_verify_locations(cafile=location)
    if "ssl.crl.location" in properties:
        with _named("ssl.crl.location"):
            context.load_verify_locations(cafile=properties["ssl.crl.location"])
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _identify(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """The certificate this client shows, if it has one."""
    with (
        _named("ssl.certificate.location"),
        _file(properties, "ssl.certificate") as certificate,
        _file(properties, "ssl.key") as key,
    ):
        if certificate is not None:
            context.load_cert_chain(certificate, key, properties.get("ssl.key.password", ""))
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
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"{key}: cannot be used: {error}") from error
