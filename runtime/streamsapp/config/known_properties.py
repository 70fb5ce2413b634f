"""The Kafka properties that the runtime's own client knows, for consumers, producers and connections alike. Pure.

Called when a configuration is made. A property that only librdkafka knows is refused, with ``client: librdkafka`` as
the remedy: nothing that a user sets is left out in silence, and no client is swapped for another one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from streamsapp.config.client_keys import OWNED, split_prefix
from streamsapp.errors import ConfigError
from streamsapp.java_names import properties as streams

#: The clients that move records, by the names that users write.
OWN, LIBRDKAFKA = "streamsapp", "librdkafka"
CLIENTS = (OWN, LIBRDKAFKA)

_MOST = 2**31 - 1

#: Numbers, with the least and the greatest value: librdkafka's bounds.
_NUMBERS: Mapping[str, tuple[float, float]] = {
    "batch.size": (1, _MOST),
    "connections.max.idle.ms": (0, _MOST),
    "delivery.timeout.ms": (0, _MOST),
    "fetch.error.backoff.ms": (0, 300_000),
    "fetch.max.bytes": (0, _MOST - 512),
    "fetch.message.max.bytes": (1, 1_000_000_000),
    "fetch.min.bytes": (1, 100_000_000),
    "fetch.wait.max.ms": (0, 300_000),
    "heartbeat.interval.ms": (1, 3_600_000),
    "linger.ms": (0, 900_000),
    "max.partition.fetch.bytes": (1, 1_000_000_000),
    "message.max.bytes": (1_000, 1_000_000_000),
    "message.timeout.ms": (0, _MOST),
    "metadata.max.age.ms": (1, 86_400_000),
    "queue.buffering.max.ms": (0, 900_000),
    "receive.message.max.bytes": (1_000, _MOST),
    "reconnect.backoff.max.ms": (0, 3_600_000),
    "reconnect.backoff.ms": (0, 3_600_000),
    "request.timeout.ms": (1, 900_000),
    "retry.backoff.ms": (1, 300_000),
    "session.timeout.ms": (1, 3_600_000),
    "socket.connection.setup.timeout.ms": (1_000, _MOST),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
    "socket.timeout.ms": (10, 300_000),
    "transaction.timeout.ms": (1_000, _MOST),
}
#: Of these no part of a whole is taken.
_FRACTIONS = frozenset({"linger.ms", "queue.buffering.max.ms", "metadata.max.age.ms", "socket.timeout.ms"})

_CODECS = frozenset({"none", "gzip", "snappy", "lz4", "zstd"})
_MECHANISMS = frozenset({"plain", "scram-sha-256", "scram-sha-512", "oauthbearer"})
_SWITCH = frozenset({"true", "false"})
_ON = frozenset({"true"})
#: A record is tried again until ``delivery.timeout.ms`` are over.
_WITHOUT_END = frozenset({str(_MOST)})
#: Properties with the values that are known; of a switch that has one, the other would need librdkafka.
_VALUES: Mapping[str, frozenset[str]] = {
    "api.version.request": _ON,
    "broker.address.family": frozenset({"any"}),
    "check.crcs": _SWITCH,
    "client.dns.lookup": frozenset({"use_all_dns_ips"}),
    "compression.codec": _CODECS,
    "compression.type": _CODECS,
    "enable.metrics.push": frozenset({"false"}),
    "enable.sasl.oauthbearer.unsecure.jwt": _SWITCH,
    "enable.ssl.certificate.verification": _SWITCH,
    "message.send.max.retries": _WITHOUT_END,
    "metadata.recovery.strategy": frozenset({"rebootstrap"}),
    "retries": _WITHOUT_END,
    "sasl.mechanism": _MECHANISMS,
    "sasl.mechanisms": _MECHANISMS,
    "sasl.oauthbearer.method": frozenset({"default", "oidc"}),
    "security.protocol": frozenset({"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"}),
    "socket.keepalive.enable": _ON,
    "socket.nagle.disable": _ON,
    "ssl.endpoint.identification.algorithm": frozenset({"none", "https"}),
    "statistics.interval.ms": frozenset({"0"}),
}

#: Texts that are read as they are.
_TEXTS = frozenset({
    "client.rack", "https.ca.location", "https.ca.pem", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config", "sasl.oauthbearer.extensions", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username", "ssl.ca.location", "ssl.ca.pem",
    "ssl.certificate.location", "ssl.certificate.pem", "ssl.cipher.suites", "ssl.crl.location", "ssl.key.location",
    "ssl.key.password", "ssl.key.pem",
})  # fmt: skip

#: The rest of librdkafka's list, which separates a slip of the keyboard from a property that only librdkafka knows:
#: this client has no such thing, or does it in another way.
_OF_LIBRDKAFKA = frozenset({
    "api.version.fallback.ms", "api.version.request.timeout.ms", "batch.num.messages", "broker.address.ttl",
    "broker.version.fallback", "builtin.features", "compression.level", "coordinator.query.interval.ms",
    "debug", "enable.random.seed", "enabled_events", "fetch.queue.backoff.ms", "group.protocol.type",
    "log.connection.close", "log.queue", "log.thread.name", "log_level", "max.poll.interval.ms",
    "message.copy.max.bytes", "metadata.recovery.rebootstrap.trigger.ms", "plugin.library.paths",
    "queue.buffering.backpressure.threshold", "queued.min.messages", "queuing.strategy", "reconnect.backoff.jitter.ms",
    "retry.backoff.max.ms", "socket.blocking.max.ms", "socket.max.fails", "sticky.partitioning.linger.ms",
    "topic.blacklist", "topic.metadata.propagation.max.ms", "topic.metadata.refresh.fast.cnt",
    "topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.interval.ms", "topic.metadata.refresh.sparse",
})  # fmt: skip
#: The same of connections: the membership in the group has one of the runtime's with either client.
_OF_CONNECTIONS = ("sasl.", "ssl.", "https.", "security.", "enable.sasl.", "enable.ssl.")

_PEM = "convert it to PEM and set ssl.certificate.location, ssl.key.location and ssl.key.password"
#: The replacements for properties of connections.
_INSTEAD = {"ssl.keystore.location": _PEM, "ssl.keystore.password": _PEM}

_KNOWN = frozenset().union(_NUMBERS, _VALUES, _TEXTS)


def check_known(client: str, properties: Mapping[str, object]) -> None:
    """Raise ``ConfigError`` for the first property that the client cannot do as the user asks."""
    for key, value in properties.items():
        if (fault := property_fault(client, key, str(value))) is not None:
            raise ConfigError(f"kafka property {key!r}: {fault}")


def property_fault(client: str, key: str, value: str) -> str | None:
    """Returns what is wrong with a property for this client; ``None`` if nothing is known to be: librdkafka looks at
    its own when it is made. The client that creates topics is librdkafka's in any case, and is given ``admin.``."""
    prefix, bare = split_prefix(key)
    return None if client == LIBRDKAFKA or prefix == "admin." else _fault(bare, value)


def _fault(key: str, value: str) -> str | None:
    if key in _NUMBERS:
        return _number_fault(key, value)
    if key in _VALUES:
        return _value_fault(key, value, _VALUES[key])
    if key in _KNOWN or key in OWNED:
        return None
    if key.startswith(_OF_CONNECTIONS):
        known = [each for each in _KNOWN if each.partition(".")[0] == key.partition(".")[0]]
        return f"is not known to the runtime's connections: {_INSTEAD.get(key) or _nearest(key, known)}"
    if key in _OF_LIBRDKAFKA:
        instead = "set metadata.max.age.ms instead" if key == "topic.metadata.refresh.interval.ms" else "leave it out"
        return f"is known to librdkafka only; {instead}, or set client: {LIBRDKAFKA}"
    return f"is not known to the client: {_nearest(key, {*_KNOWN, *_OF_LIBRDKAFKA, *OWNED, *streams.FIELDS})}"


def _number_fault(key: str, value: str) -> str | None:
    least, greatest = _NUMBERS[key]
    try:
        number = float(value) if key in _FRACTIONS else int(value)
    except ValueError:
        number = None
    if number is not None and least <= number <= greatest:
        return None
    return f"expected a number from {least:.0f} to {greatest:.0f}, got {value!r:.100}; correct or remove it"


def _value_fault(key: str, value: str, known: Iterable[str]) -> str | None:
    if value.lower() in known:
        return None
    if key.startswith(_OF_CONNECTIONS):
        remedy = "correct it"
    else:
        remedy = f"correct it, leave it out, or set client: {LIBRDKAFKA}"
    return f"expected {' or '.join(sorted(known))}, got {value!r:.100}; {remedy}"


def _nearest(key: str, known: Iterable[str]) -> str:
    """The remedy, with the name that may have been meant."""
    close = difflib.get_close_matches(key, [*known], n=1)
    if close:
        return f"did you mean {close[0]!r}? Correct it or leave it out"
    return "correct it or leave it out" + (
        "" if key.startswith(_OF_CONNECTIONS) else f", or set client: {LIBRDKAFKA} if librdkafka knows it"
    )
