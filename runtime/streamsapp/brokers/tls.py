"""TLS for a connection, by librdkafka's names of properties.

Pure but for reading key files; used on the polling thread when a connection is made.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from streamsapp.errors import ConfigError

_KNOWN = frozenset({
    "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
    "ssl.key.pem", "ssl.key.password", "ssl.crl.location", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
})  # fmt: skip

#: The replacements for settings that Python's TLS cannot read.
_INSTEAD = {
    "ssl.keystore.location": "convert it to PEM and set ssl.certificate.location and ssl.key.location",
    "ssl.keystore.password": "convert the key store to PEM and set ssl.key.location and ssl.key.password",
}


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Raises ``ConfigError`` for what cannot be read or done."""
    for key in properties:
        if key.startswith("ssl.") and key not in _KNOWN:
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
