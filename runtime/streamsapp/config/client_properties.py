"""The final properties of every client of an instance, so that TLS and SASL come from one place. The properties of
consumers and producers say which client they are for, under ``client``.

Pure; called on the polling thread when the clients are made. ``client_error`` turns what librdkafka says about a bad
property into a ``ConfigError``.
"""

from __future__ import annotations

import difflib
import re
from typing import TypeAlias

from streamsapp.config.client_keys import CONSUMER_ONLY, OWNED, PRODUCER_ONLY, given_to
from streamsapp.config.known_properties import LIBRDKAFKA, OWN
from streamsapp.config.redaction import is_secret
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ConfigError
from streamsapp.java_names import properties

ClientProperties: TypeAlias = dict[str, str | int | float | bool]

#: As large as Kafka's Java producer allows; the client's own default is 1,000,000 bytes.
MAX_MESSAGE_BYTES = 1_048_576

_KNOWN_KEYS = (*CONSUMER_ONLY, *PRODUCER_ONLY, *OWNED, "security.protocol", "sasl.mechanism", "sasl.username",
               "sasl.password", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
               "ssl.key.password", "client.rack", "debug", "message.max.bytes", "socket.timeout.ms")  # fmt: skip

#: The client speaks of a property by its older name.
_ALIASES = {
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}

#: At a low rate this is most of a result's way; 100, as Kafka Streams has it, saves some CPU at full load.
LINGER_MS = 10
#: In seconds: a commit may be far away.
_HELD = 0.1
#: Kafka's default of ``metadata.max.age.ms``; and the shortest time between two looks at all topics, in seconds.
_AGE_MS, _SHORTEST_AGE = 300_000, 0.2


def chosen(properties: ClientProperties) -> tuple[str, ClientProperties]:
    """Returns the client that is to move records, and the properties left for it."""
    rest = dict(properties)
    return str(rest.pop("client", OWN)), rest


def main_consumer(config: StreamsConfig) -> ClientProperties:
    """The properties of the consumer that reads the sources; they carry the group id under which offsets are
    committed."""
    return _client(config, "main consumer", _consumer_defaults(), _consumer_owned(config, "consumer"))


def metadata_max_age(config: StreamsConfig) -> float:
    """Returns the seconds within which topics that match a pattern are to be found (``metadata.max.age.ms`` of the main
    consumer, whose client refuses what is no number)."""
    return max(_SHORTEST_AGE, float(main_consumer(config).get("metadata.max.age.ms", _AGE_MS)) / 1000)


def input_rest(config: StreamsConfig) -> float:
    """Returns the seconds for which records that arrive are waited for, to be processed together: half as long as
    results wait for others, and no longer than that is by default."""
    given = producer(config)
    linger = next(given[key] for key in ("queue.buffering.max.ms", "linger.ms") if key in given)
    try:
        return max(0.0, min(float(linger), LINGER_MS)) / 2000
    except ValueError:
        return 0.0  # the producer reports them


def input_held(config: StreamsConfig) -> float:
    """Returns the seconds for which results are held back in any case, as no consumer can read them before the commit;
    and half as much again, so that records are looked for when a commit begins and not just before."""
    return 1.5 * min(config.commit_interval_ms / 1000, _HELD) if config.exactly_once else 0.0


def restore_consumer(config: StreamsConfig) -> ClientProperties:
    """The properties of the consumer that reads changelogs. It never commits; librdkafka asks for a group id all the
    same."""
    return _client(config, "restore consumer", _consumer_defaults(), _consumer_owned(config, "restore-consumer"))


def global_consumer(config: StreamsConfig) -> ClientProperties:
    """The properties of the consumer that reads the topics of global stores, all partitions of them, outside the
    group."""
    return _client(config, "global consumer", _consumer_defaults(), _consumer_owned(config, "global-consumer"))


def producer(
    config: StreamsConfig, transactional_id: str | None = None, delivery_timeout: float | None = None
) -> ClientProperties:
    """The properties of the producer that writes sinks and changelogs; transactional if an id is given, idempotent
    always.

    ``delivery_timeout`` (seconds) is when a record that waits to be written is given up, unless the user set it.
    """
    defaults: ClientProperties = {"message.max.bytes": MAX_MESSAGE_BYTES}
    defaults |= {"linger.ms": LINGER_MS, "batch.num.messages": 100_000, "batch.size": 1_000_000}
    owned: ClientProperties = {
        **_identity(config, "producer"),
        "client": config.client,
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "delivery.report.only.error": True,
        "queue.buffering.max.messages": 0,
        "queue.buffering.max.kbytes": config.memory.producer_queue // 1024,
    }
    if delivery_timeout is not None:
        defaults["delivery.timeout.ms"] = round(delivery_timeout * 1000)
    if transactional_id is not None:
        # A commit waits on the coordinator several times; the default of 100 ms would be most of the pause.
        defaults["retry.backoff.ms"] = 5
        defaults["linger.ms"] = 20
        owned["transactional.id"] = transactional_id
    elif config.client == LIBRDKAFKA:
        # A broker takes any sequence number for the first of a producer that it does not know. With several requests on
        # their way, a first batch that it refuses may follow the second one, and pass for a repetition: it is lost.
        owned["max.in.flight.requests.per.connection"] = 1
    return _client(config, "producer", defaults, owned)


def admin(config: StreamsConfig) -> ClientProperties:
    """The properties of the client that creates internal topics, and deletes consumed records of repartition topics."""
    # Or asking for a topic that is missing would create it, where brokers do so.
    owned = _identity(config, "admin") | {"allow.auto.create.topics": False}
    return _client(config, "admin", {}, owned)


def client_error(error: Exception) -> ConfigError | None:
    """Returns what the user can do about a property that a client refused; ``None`` if the error is about something
    else."""
    text = str(error)
    if "_INVALID_ARG" not in text:
        return None
    unknown = re.search(r'No such configuration property: "([^"]+)', text)
    if unknown:
        return ConfigError(f"kafka property {unknown[1]!r} is not known to the client: {_suggestion(unknown[1])}")
    named = re.search(r'onfiguration property "([^"]+)', text) or re.search(r'(?:: |[`"])([a-z]+(?:\.[a-z]+)+)', text)
    key = named[1] if named else ""
    detail = "its value is not usable" if is_secret(key) else text.partition('str="')[2].removesuffix('"}')
    also = f" (also called {_ALIASES[key]})" if key in _ALIASES else ""
    where = f"kafka property {key!r}{also}" if key else "a kafka property"
    return ConfigError(f"{where} was refused by the client: {detail}; correct or remove it")


def _consumer_defaults() -> ClientProperties:
    # 20: the default of 1,000 leaves a consumer idle for up to a second after its queue was full.
    return {"fetch.queue.backoff.ms": 20, "fetch.wait.max.ms": 100, "queued.min.messages": 100_000}


def _consumer_owned(config: StreamsConfig, role: str) -> ClientProperties:
    return {
        **_identity(config, role),
        "client": config.client,
        "group.id": config.application_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # An offset out of range must surface: only the task knows where to go from there.
        "auto.offset.reset": "error",
        "isolation.level": "read_committed" if config.exactly_once else "read_uncommitted",
        "allow.auto.create.topics": False,
        # Positions alone never say that the end is reached: control and compacted records leave gaps.
        "enable.partition.eof": True,
        "queued.max.messages.kbytes": config.memory.consumer_queue // 1024,
        # No client polls for a group here; librdkafka takes no session that is longer.
        "max.poll.interval.ms": max(300_000, config.session_timeout_ms),
    }


def _identity(config: StreamsConfig, role: str) -> ClientProperties:
    return {"bootstrap.servers": config.bootstrap_servers, "client.id": f"{config.client_id}-{role}"}


def _client(config: StreamsConfig, kind: str, defaults: ClientProperties, owned: ClientProperties) -> ClientProperties:
    """Merges our defaults, then the user's properties from general to specific, then the runtime's own."""
    given = {key: value for key, (_, value) in given_to(kind, config.kafka).items()}
    return defaults | given | owned


def _suggestion(key: str) -> str:
    close = difflib.get_close_matches(key, (*_KNOWN_KEYS, *properties.FIELDS), n=1)
    return f"did you mean {close[0]!r}?" if close else "correct or remove it (names are librdkafka's)"
