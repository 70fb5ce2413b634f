"""Kafka Streams' names, all of them: each is the same here, or is answered with what stands for it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streamsapp
import streamsapp.testing
from streamsapp import Consumed, Serdes, StreamsBuilder, StreamsConfig
from streamsapp.dsl.branched import BranchedKStream
from streamsapp.dsl.suppressed import BufferConfig
from streamsapp.errors import ConfigError
from streamsapp.java_names import properties
from streamsapp.query.api import KeyQueryMetadata
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp.state.kinds.session import SessionStoreImpl
from streamsapp.state.kinds.versioned import VersionedStoreImpl
from streamsapp.state.kinds.window import WindowStoreImpl
from streamsapp.tasks.processor_context import UserContext
from streamsapp.testing.stores import PlainValues, PlainWindows

HERE = Path(__file__).parent

#: Of classes whose methods are called on what is not exported, or under another name.
_OURS: dict[str, tuple[type, ...]] = {
    "KafkaStreams": (streamsapp.StreamsRuntime,),
    "KeyValueStore": (KeyValueStoreImpl, PlainValues),
    "ReadOnlyKeyValueStore": (KeyValueStoreImpl, PlainValues),
    "WindowStore": (WindowStoreImpl,),
    "ReadOnlyWindowStore": (WindowStoreImpl, PlainWindows),
    "SessionStore": (SessionStoreImpl,),
    "ReadOnlySessionStore": (SessionStoreImpl,),
    "VersionedKeyValueStore": (VersionedStoreImpl,),
    "ProcessorContext": (UserContext,),
    "ProcessingContext": (UserContext,),
    "StoreBuilder": (StoreBuilder,),
    "BranchedKStream": (BranchedKStream,),
    "KeyQueryMetadata": (KeyQueryMetadata,),
}
#: Names that mean nothing to a caller: constants of Java's, and what only the library calls.
_INNER = {
    "TaskId": {"NAMED_TOPOLOGY_DELIMITER", "compareTo", "topologyName"},
    "KeyQueryMetadata": {"NOT_AVAILABLE"},
    "VersionedKeyValueStore": {"readOnly", "PUT_RETURN_CODE_NOT_PUT", "PUT_RETURN_CODE_VALID_TO_UNDEFINED"},
    "ReadOnlyKeyValueStore": {"readOnly"},
    "ReadOnlyWindowStore": {"readOnly"},
    "ReadOnlySessionStore": {"readOnly"},
    "Windows": {"gracePeriodMs", "size"},
    "StreamsConfig": {"configDef", "main", "getKafkaClientSupplier", "verifyTopologyOptimizationConfigs"},
}


def _api() -> Iterator[tuple[str, list[str]]]:
    for line in (HERE / "kafka_streams_api.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, _, members = line.partition(":")
            yield name.rpartition(".")[2], members.split()


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])[A-Z]", lambda letter: f"_{letter[0]}", name).lower()


def _classes(name: str) -> tuple[type, ...]:
    if name in _OURS:
        return _OURS[name]
    if name.endswith("Listener"):  # users write it, and the runtime calls it
        return ()
    found = getattr(streamsapp, name, None) or getattr(streamsapp.testing, name, None)
    return (found,) if isinstance(found, type) else ()


def _is_there(kind: type, name: str) -> bool:
    try:
        _asked(kind, name)
    except AttributeError:
        return False
    return True


def _asked(kind: type, name: str) -> Any:
    """The member of the class; of a class whose instances answer, that of an instance that was not set up."""
    if name in dir(kind) or "__getattr__" not in dir(kind):
        return getattr(kind, name)
    return getattr(object.__new__(kind), name)


@pytest.mark.parametrize(("java_class", "members"), list(_api()))
def test_every_class_of_kafka_streams_is_here_or_is_answered(java_class: str, members: list[str]) -> None:
    if java_class in streamsapp.__all__:
        return
    with pytest.raises(AttributeError) as raised:
        getattr(streamsapp, java_class)

    assert f"there is no {java_class} here; " in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, member, id=f"{kind.__name__}-{member}")
        for java_class, members in _api()
        for kind in _classes(java_class)
        for member in members
        if member not in _INNER.get(java_class, ())
        and not (java_class == "StreamsConfig" and (member.isupper() or not member.endswith("Prefix")))
    ],
)
def test_every_method_of_kafka_streams_is_here_or_is_answered_with_what_it_is_called(kind: type, name: str) -> None:
    if name in getattr(kind, "__dataclass_fields__", ()) or _is_there(kind, name):
        return
    with pytest.raises(AttributeError) as raised:
        _asked(kind, name)

    message = str(raised.value)
    remedy = message.partition(f"{kind.__name__} has no {name!r}; ")[2]
    assert remedy
    assert not re.match("did you mean|it has (?!no counterpart)", remedy)
    called = re.match(r"here it is called ([a-z_]+)", remedy)
    assert called is None or called[1] in getattr(kind, "__dataclass_fields__", ()) or _is_there(kind, called[1])


@pytest.mark.parametrize("name", ["with", "with_", "as", "as_", "withKeySerde", "withName"])
@pytest.mark.parametrize("option", ["Consumed", "Produced", "Grouped", "Materialized", "Joined", "StreamJoined"])
def test_options_say_how_they_are_written(option: str, name: str) -> None:
    if option == "Materialized" and name == "withName":
        return
    with pytest.raises(AttributeError, match=f"{option} has no '{name}'; here it is written "):
        getattr(getattr(streamsapp, option), name)
    with pytest.raises(AttributeError, match="here it is written"):
        getattr(getattr(streamsapp, option)(), name)


def test_a_class_that_is_imported_by_its_java_name_is_answered_by_the_import() -> None:
    with pytest.raises(ImportError, match=r"there is no KafkaStreams here; here it is called StreamsRuntime"):
        exec("from streamsapp import KafkaStreams")  # noqa: S102 - the statement is what is tested
    with pytest.raises(ImportError, match="cannot import name 'Nonsense'"):
        exec("from streamsapp import Nonsense")  # noqa: S102 - as above
    assert not hasattr(streamsapp, "KeyValue")


def test_names_that_are_there_cost_nothing_and_others_stay_attribute_errors() -> None:
    assert inspect.getattr_static(Serdes, "string")
    assert getattr(Serdes, "no_such_serde", "none") == "none"
    assert not hasattr(Consumed(), "withKeySerde")
    assert Consumed.__name__ == "Consumed"


def test_the_buffer_of_a_suppression_is_reached_as_in_java() -> None:
    assert streamsapp.Suppressed.BufferConfig is BufferConfig
    with pytest.raises(AttributeError, match="here it is called max_records"):
        _ = BufferConfig.maxRecords  # type: ignore[attr-defined]


# ---- properties ----------------------------------------------------------------------------------------------------


def _properties() -> list[str]:
    lines = (HERE / "kafka_streams_properties.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


_NEEDED = {"application.id": "a", "bootstrap.servers": "b:1"}
_VALUES = {
    "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "default.value.serde": "org.apache.kafka.common.serialization.Serdes$LongSerde",
    "default.timestamp.extractor": "org.apache.kafka.streams.processor.WallclockTimestampExtractor",
    "deserialization.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler",
    "default.deserialization.exception.handler": "org.apache.kafka.streams.errors.LogAndFailExceptionHandler",
    "processing.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler",
    "production.exception.handler": "org.apache.kafka.streams.errors.DefaultProductionExceptionHandler",
    "default.production.exception.handler": "org.apache.kafka.streams.errors.DefaultProductionExceptionHandler",
    "processing.guarantee": "exactly_once_v2",
    "application.server": "me:8080",
    "probing.rebalance.interval.ms": "600000",
    "topology.optimization": "all",
    "processor.wrapper.class": lambda node_name, processor: processor,
    "ensure.explicit.internal.resource.naming": "true",
    "dsl.store.format": "HEADERS",
    "errors.dead.letter.queue.topic.name": "dead",
    "state.dir": "state",
    "security.protocol": "PLAINTEXT",
    "enable.metrics.push": "false",
    "metadata.recovery.strategy": "rebootstrap",
    "client.id": "c",
    "reconnect.backoff.max.ms": "3000",
    "bootstrap.servers": "b:1",
}


@pytest.mark.parametrize("name", _properties())
def test_every_property_of_kafka_streams_is_taken_or_has_no_meaning_here(name: str) -> None:
    given = {**_NEEDED, name: _VALUES.get(name, "3")}
    if name in properties.NO_MEANING:
        with pytest.raises(ConfigError, match=rf"^{re.escape(name)}: has no meaning here, leave it out: \w"):
            StreamsConfig.from_properties(given)
        return
    if name == "metadata.recovery.rebootstrap.trigger.ms":  # the other client goes by what answers, not by a time
        with pytest.raises(ConfigError, match="leave it out, or set client: librdkafka"):
            StreamsConfig.from_properties(given)
        return
    made = StreamsConfig.from_properties(given)

    if name in properties.FIELDS:
        assert hasattr(made, properties.FIELDS[name])
        assert not made.kafka
    else:
        assert dict(made.kafka) == {properties.RENAMED.get(name, name): given[name]}


@pytest.mark.parametrize("name", sorted(set(_properties()) - properties.CLIENTS))
def test_every_property_among_those_of_the_clients_is_told_by_what_it_is(name: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(repr(name))) as raised:
        StreamsConfig(application_id="a", bootstrap_servers="b:1", kafka={name: "3"})

    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize("name", sorted(properties.constants()))
def test_constants_of_javas_configuration_say_what_to_write(name: str) -> None:
    with pytest.raises(AttributeError, match=f"StreamsConfig has no '{name}'; "):
        getattr(StreamsConfig, name)


def test_all_that_has_no_meaning_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"poll\.ms: has no meaning.*; upgrade\.from: has no meaning"):
        StreamsConfig.from_properties({**_NEEDED, "poll.ms": 1, "upgrade.from": "3.9"})


def test_values_of_java_are_taken_by_their_classes() -> None:
    made = StreamsConfig.from_properties({**_VALUES, **_NEEDED, "client.tag.zone": "z"})

    assert made.default_key_serde is Serdes.string()
    assert made.default_value_serde is Serdes.long()
    assert made.deserialization_exception_handler == "continue"
    assert made.processing_exception_handler == "continue"
    assert made.production_exception_handler == "fail"
    assert made.exactly_once
    assert dict(made.client_tags) == {"zone": "z"}


@pytest.mark.parametrize("text", ["Serdes$StringSerde", "Serdes.StringSerde.class", "StringSerde"])
def test_a_serde_is_known_by_the_end_of_its_name(text: str) -> None:
    made = StreamsConfig(application_id="a", bootstrap_servers="b:1", default_key_serde=text)  # type: ignore[arg-type]
    assert made.default_key_serde is Serdes.string()


def test_a_class_without_a_counterpart_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"default\.key\.serde: com\.acme\.OrderSerde is a class of Java's without"):
        StreamsConfig.from_properties({**_NEEDED, "default.key.serde": "com.acme.OrderSerde"})
    with pytest.raises(ConfigError, match=r"processing\.exception\.handler: com\.acme\.Handler is a class of Java's"):
        StreamsConfig.from_properties({**_NEEDED, "processing.exception.handler": "com.acme.Handler"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerd"},
         ("default.key.serde: there is no 'org.apache.kafka.common.serialization.Serdes$StringSerd'; did you mean "
          "StringSerde?")),
        ({"default.timestamp.extractor": "WallclockTimestampExtracto"},
         "default.timestamp.extractor: there is no 'WallclockTimestampExtracto'; did you mean Wallclock"),
        ({"default.deserialization.exception.handler": "LogAndContinueExceptionHandle"},
         "default.deserialization.exception.handler: there is no 'LogAndContinueExceptionHandle'; did you mean Log"),
        ({"processing.guarantee": "exactly_onc"}, "processing.guarantee: expected 'exactly_once' or 'at_least_once'"),
        ({"num.stream.threads": "two"}, "num.stream.threads: expected an integer ≥ 1, got 'two'"),
        ({"value.serializer": "org.apache.kafka.common.serialization.StringSerializer"},
         "kafka property 'value.serializer' is known to Java clients only: set default_value_serde"),
        ({"state.dir": 5}, "state.dir: expected the path of a folder, got 5"),
    ],
)  # fmt: skip
def test_a_slip_in_a_property_is_told_where_the_configuration_is_made(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        StreamsConfig.from_properties({**_NEEDED, **given})
    assert message in str(raised.value)


@pytest.mark.parametrize("name", ["exactly_once_v2", "exactly_once_beta"])
def test_the_guarantees_of_java_are_taken_by_the_constructor_too(name: str) -> None:
    assert StreamsConfig(application_id="a", bootstrap_servers="b:1", processing_guarantee=name).exactly_once


def test_a_runtime_says_how_its_configuration_is_made() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(
        ConfigError, match=r"takes a StreamsConfig, got dict; make one with StreamsConfig\(\.\.\.\), or St"
    ):
        streamsapp.StreamsRuntime(builder.build(), {"application.id": "a"})  # type: ignore[arg-type]
