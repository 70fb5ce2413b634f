"""Serdes whose schemas are in a schema registry: Avro, Protobuf and JSON Schema in Confluent's wire format.

The client's own serializers do the work (``confluent_kafka.schema_registry``); here they are bound to topics, and their
errors are sorted. Wrong bytes and values go to the application's exception handlers. A registry that does not answer
never does, since no handler may drop a record for that.

Made while a topology is built; bound on the polling thread when a task is created. They run on processing threads, and
ask the registry for a schema that is new to them, once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias, cast

from streamsapp.errors import ConfigError, SchemaRegistryUnavailableError
from streamsapp.renewed_files import RenewedFiles
from streamsapp.serdes.api import PlainForm, Serde, identity
from streamsapp.serdes.json_text import read_json, write_whatever
from streamsapp.serdes.read_back import written_to_last
from streamsapp.serdes.typed import M, protobuf_plain

_PREFIX = "SCHEMA_REGISTRY_"
#: Confluent's headers for the ids of schemas, in the same form as before the bytes: the client reads either.
_ID_OF_KEY, _ID_OF_VALUE = "__key_schema_id", "__value_schema_id"
_NUMBERS = frozenset({"timeout", "cache.capacity", "cache.latest.ttl.sec", "max.retries", "retries.wait.ms",
                      "retries.max.wait.ms"})  # fmt: skip

#: Properties that name files which may be renewed.
_FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")

#: ``(client, topic, is_key) -> (serialize, deserialize)``, with what the client's serializers want to know.
_Binder: TypeAlias = Callable[[Any, Any], tuple[Callable[[Any], Any], Callable[[bytes], Any]]]


class SchemaRegistry:
    """A schema registry, and the serdes of what is in it.

    Schemas are registered and looked up under the subject ``<topic>-key`` or ``<topic>-value``, with the topic's name
    as it is on the broker: changelogs and repartition topics carry the application's id, foreign-key joins have
    ``-fk``, ``-pk`` and ``-vh`` behind the topic, as in Kafka Streams (KIP-213).
    """

    def __init__(self, url: str | None = None, properties: Mapping[str, Any] | None = None) -> None:
        """Names a registry; nothing is asked yet.

        ``properties`` are those of the client: ``basic.auth.user.info``, ``ssl.ca.location``, ``timeout`` (seconds),
        ``cache.capacity``, ... Without a ``url`` all come from the environment: ``SCHEMA_REGISTRY_URL``,
        ``SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO``, ``SCHEMA_REGISTRY_SSL_CA_LOCATION``, ...
        """
        self._url, self._properties = url, dict(properties or {})
        self._client: Any = None
        self._files = RenewedFiles(())
        self._lock = Lock()

    def avro(self, schema: str | None = None, *, auto_register: bool = True) -> Serde[Any]:
        """Returns a serde of Avro values, records as dicts.

        Values are written with ``schema`` (JSON text), which is registered unless ``auto_register`` is off, or without
        one with the newest of the subject. Values that are read are resolved to ``schema``, or have the writer's.
        """

        def binder(client: Any, context: Any) -> tuple[Callable[[Any], Any], Callable[[bytes], Any]]:
            from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

            from streamsapp.serdes.avro_values import exact_reader, exact_writer

            serializer = AvroSerializer(client, schema, conf=_writing(auto_register, schema))
            deserializer = AvroDeserializer(client, schema, conf=_reading())
            read = exact_reader(deserializer, context)
            return exact_writer(lambda value: serializer(value, context), read), read

        plain = PlainForm(identity, identity, fields=schema)
        return _RegistrySerde(_unbound, _unbound, name="avro", plain=plain, registry=self, binder=binder)

    def json_schema(self, schema: str | None = None, *, auto_register: bool = True) -> Serde[Any]:
        """Returns a serde of JSON values that fit a JSON Schema, with the rules of :meth:`avro`."""

        def binder(client: Any, context: Any) -> tuple[Callable[[Any], Any], Callable[[bytes], Any]]:
            from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

            serializer = JSONSerializer(schema, client, conf=_writing(auto_register, schema), json_encode=_json_text)
            deserializer = JSONDeserializer(
                schema, schema_registry_client=client, conf=_reading(), json_decode=read_json
            )
            return lambda value: serializer(value, context), lambda data: deserializer(data, context)

        return _RegistrySerde(_unbound, _unbound, name="json_schema", plain=_ITSELF, registry=self, binder=binder)

    def protobuf(self, message: type[M], *, auto_register: bool = True) -> Serde[M]:
        """Returns a serde of messages of a generated class."""

        def binder(client: Any, context: Any) -> tuple[Callable[[Any], Any], Callable[[bytes], Any]]:
            from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

            older = {"use.deprecated.format": False}
            kind = cast(Any, message)
            serializer = ProtobufSerializer(kind, client, _writing(auto_register, "") | older)
            deserializer = ProtobufDeserializer(kind, _reading() | older, client)
            return lambda value: serializer(value, context), lambda data: deserializer(data, context)

        name = f"protobuf_schema({message.__name__})"
        plain = protobuf_plain(message)
        return _RegistrySerde(_unbound, _unbound, name=name, plain=plain, registry=self, binder=binder)

    def close(self) -> None:
        """Closes the connections; serdes that are bound may be used no more, those bound later connect anew."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def bound(self, binder: _Binder, topic: str, is_key: bool) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
        """Returns what writes and reads the keys or values of a topic.

        Raises ``ConfigError`` for properties that the client refuses, and where the extra ``registry`` is missing.
        """
        try:
            from confluent_kafka.serialization import MessageField, SerializationContext

            context = SerializationContext(topic, MessageField.KEY if is_key else MessageField.VALUE)
            client = self._connected()
            serialize, deserialize = binder(client, context)
        except ImportError as error:
            raise ConfigError(
                f"a schema registry needs {error.name}: install it with pip install 'streamsapp[registry]'"
            ) from error
        where = f"{topic}-{'key' if is_key else 'value'}"

        def again(number: int) -> Callable[[], Callable[[Any], Any] | None]:
            used = client

            def bound_anew() -> Callable[[Any], Any] | None:
                nonlocal used
                if (found := self._renewed(used)) is used:
                    return None
                used = found
                return binder(found, context)[number]

            return bound_anew

        return (
            _sorting(serialize, f"the schema of {where}", again(0)),
            _sorting(deserialize, f"a schema of {where}", again(1)),
        )

    def _renewed(self, used: Any) -> Any:
        """The client, which is another one if certificates were renewed in their files since it read them; the one that
        is used where they cannot be read."""
        with self._lock:
            if self._files.renewed():
                self._client = None  # its connections are closed with the last serde that has it
            try:
                return self._connected()
            except ConfigError:
                return used

    def _connected(self) -> Any:
        if self._client is None:
            from confluent_kafka.schema_registry import SchemaRegistryClient

            url, properties = self._url, self._properties
            if url is None:
                url, properties = _from_environment()
            self._files = RenewedFiles(str(properties[key]) for key in _FILES if key in properties)
            try:
                self._client = SchemaRegistryClient.new_client({"url": url, **properties})
            except (ValueError, TypeError, OSError) as error:
                raise ConfigError(f"schema registry: {error}") from error
        return self._client


@dataclass(frozen=True)
class _RegistrySerde(Serde[Any]):
    """A serde that can do nothing before it is bound to a topic."""

    registry: SchemaRegistry = field(kw_only=True)
    binder: _Binder = field(kw_only=True)

    def bind(self, topic: str, is_key: bool) -> Serde[Any]:
        serialize, deserialize = self.registry.bound(self.binder, topic, is_key)
        id_header = _ID_OF_KEY if is_key else _ID_OF_VALUE
        return Serde(serialize, deserialize, name=self.name, plain=self.plain, id_header=id_header)


_ITSELF = PlainForm(identity, identity)
_write_json = written_to_last("json_schema", write_whatever, read_json)


def _json_text(value: Any) -> str:
    return _write_json(value).decode()


def _unbound(_: Any) -> Any:
    raise TypeError("a serde of a schema registry belongs to a topic: bind(topic, is_key) gives the one of a topic")


def _writing(auto_register: bool, schema: str | None) -> dict[str, Any]:
    newest = schema is None
    return {"auto.register.schemas": auto_register and not newest, "use.latest.version": newest} | _reading()


def _reading() -> dict[str, Any]:
    from confluent_kafka.schema_registry import topic_subject_name_strategy

    return {"subject.name.strategy": topic_subject_name_strategy}


def _from_environment() -> tuple[str, dict[str, Any]]:
    """The address and the client's properties, as variables of the environment name them."""
    found = {
        name.removeprefix(_PREFIX).lower().replace("_", "."): value
        for name, value in os.environ.items()
        if name.startswith(_PREFIX) and value
    }
    url = found.pop("url", None)
    if url is None:
        raise ConfigError(f"{_PREFIX}URL: is not set; name the schema registry, such as http://registry:8081")
    return url, {key: _number(key, value) if key in _NUMBERS else value for key, value in found.items()}


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{_PREFIX}{key.upper().replace('.', '_')}: expected a number, got {text!r}") from None


def _sorting(
    call: Callable[[Any], Any], what: str, again: Callable[[], Callable[[Any], Any] | None]
) -> Callable[[Any], Any]:
    """``call``, which raises ``ValueError`` for what is wrong with its argument, and
    ``SchemaRegistryUnavailableError`` where the registry is what fails; before that it is taken from ``again``, which
    gives another one where certificates were renewed."""
    from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError
    from httpx2 import HTTPError

    def sorted_(given: Any) -> Any:
        nonlocal call
        try:
            return call(given)
        except (HTTPError, OSError, OAuthTokenError) as error:
            if (renewed := again()) is not None:
                call = renewed
                return sorted_(given)
            raise _unavailable(what, error) from error
        except SchemaRegistryError as error:
            # Refused schemas and unknown ids are about the record; all else is about the registry or the way to it.
            if error.http_status_code not in (404, 409, 422):
                raise _unavailable(what, error) from error
            raise ValueError(f"{what}: {error}") from error
        except Exception as error:  # the formats' libraries raise all kinds: of values and of bytes
            raise ValueError(_words(error)) from error

    return sorted_


def _unavailable(what: str, error: Exception) -> SchemaRegistryUnavailableError:
    return SchemaRegistryUnavailableError(
        f"the schema registry does not give {what}: {error}; see that it runs, that its address is right, and that it "
        "lets this application in"
    )


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"[:2000]
