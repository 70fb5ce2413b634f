"""The cluster and the application that ``produce``, ``consume`` and ``topics`` are about. Runs on the main thread."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streamsapp.cli.arguments import add_data_dir, add_manifest
from streamsapp.cli.local_folder import LocalFolder
from streamsapp.cli.own_broker import on_own_broker, starts_broker
from streamsapp.cli.topic_serdes import TopicRecords, records_of
from streamsapp.cli.topology_topics import topics_of
from streamsapp.config import StreamsConfig
from streamsapp.declared.faults import did_you_mean
from streamsapp.declared.resolve import serde_of
from streamsapp.declared.roles import SERDE, names_code
from streamsapp.errors import ManifestError, UserInputError
from streamsapp.manifest.entrypoint import UserCode, read_app, user_code
from streamsapp.manifest.model import StreamsApp
from streamsapp.manifest.to_config import to_config
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes
from streamsapp.topology.builder import Topology

_NO_BROKER = (
    "no broker: the manifest names none (spec.kafka.bootstrapServers), and no `streamsapp local` runs it here; "
    "start that, or pass --bootstrap-servers"
)


def add_cluster_options(parser: argparse.ArgumentParser, *, manifest_required: bool = False) -> None:
    """The options that say which broker and which application."""
    add_manifest(parser, required=manifest_required)
    parser.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="default: spec.kafka.bootstrapServers, else the broker of the `streamsapp local` that runs the manifest",
    )
    parser.add_argument(
        "--embedded",
        action="store_true",
        help="the broker of `streamsapp local --embedded`, whatever the manifest names",
    )
    add_data_dir(parser, "the folder that was given to `local`")
    parser.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property of the Kafka client, such as security.protocol=SSL; may be repeated",
    )


def add_serde_options(parser: argparse.ArgumentParser) -> None:
    """The options that say what the bytes are."""
    for side in ("key", "value"):
        parser.add_argument(
            f"--{side}-serde",
            metavar="NAME",
            help=f"the serde of the {side}s: {', '.join(SERDE.built_in)}, or module:attribute; "
            "default: the application's with -f, string without",
        )


@dataclass(frozen=True)
class Target:
    """A cluster, and perhaps the application whose topics are meant."""

    config: StreamsConfig
    code: UserCode
    topology: Topology | None = None

    def records(self, topic: str, options: argparse.Namespace) -> TopicRecords:
        """The serdes that were named, else the application's, else text."""
        key = self._named_serde(options.key_serde, "--key-serde")
        value = self._named_serde(options.value_serde, "--value-serde")
        found = None if self.topology is None else records_of(self.topology, self.config, topic)
        if found is None and self.topology is not None and None in (key, value):
            known = topics_of(self.topology, self.config.application_id)
            names = sorted(known.sources | known.sinks | known.internal)
            raise UserInputError(
                f"{topic}: no topic of {self.config.application_id}{did_you_mean(topic, names, 'its topics')}; "
                "for another one name --key-serde and --value-serde"
            )
        found = found or TopicRecords(Serdes.string(), Serdes.string())
        return TopicRecords(
            found.key if key is None else key.bind(topic, is_key=True),
            found.value if value is None else value.bind(topic, is_key=False),
            found.partitioner,
        )

    def _named_serde(self, name: str | None, option: str) -> AnySerde | None:
        if name is None:
            return None
        if fault := SERDE.fault(name):
            raise UserInputError(f"{option}: {fault}")
        if not names_code(name):
            serde: AnySerde = SERDE.built(name)
            return serde
        return serde_of(self.code.find(name, option), name, option, self.code)


def target_of(options: argparse.Namespace) -> Target:
    """Returns the cluster that the options name."""
    properties = dict(map(_property, options.property))
    if options.file is not None:
        return _target_of_app(options, properties)
    for name in ("embedded", "data_dir"):
        if getattr(options, name):
            raise UserInputError(f"--{name.replace('_', '-')}: needs -f app.yaml")
    if options.bootstrap_servers is None:
        raise UserInputError("give -f app.yaml, or the address of a broker with --bootstrap-servers")
    config = StreamsConfig(
        application_id="streamsapp-tools", bootstrap_servers=options.bootstrap_servers, kafka=properties
    )
    return Target(config, UserCode([Path.cwd()]))


def partitions_of(topic: str, existing: dict[str, int]) -> int:
    """Returns the number of partitions of a topic; raises ``UserInputError`` if there is none of that name."""
    if topic not in existing:
        known = sorted(name for name in existing if not name.startswith("__"))
        raise UserInputError(f"{topic}: there is no such topic{did_you_mean(topic, known, 'topics')}")
    return existing[topic]


def _target_of_app(options: argparse.Namespace, properties: dict[str, str]) -> Target:
    app, topology = read_app(options.file)
    code = user_code(app, options.file.parent)
    own, secrets = _broker(app, options)
    reached = on_own_broker(app) if options.bootstrap_servers is None and starts_broker(app, options.embedded) else app
    config = to_config(reached, code=code, bootstrap_servers=own, **secrets)
    return Target(replace(config, kafka={**config.kafka, **properties}), code, topology)


def _broker(app: StreamsApp, options: argparse.Namespace) -> tuple[str | None, dict[str, Any]]:
    """Its address where it is not the manifest's own, and where that broker's secrets are."""
    if options.bootstrap_servers is not None:
        return options.bootstrap_servers, {}
    if not starts_broker(app, options.embedded):
        return None, {}
    running = LocalFolder(options.file, app.application_id, options.data_dir).running_broker()
    if running is None:
        raise ManifestError([_NO_BROKER if not options.embedded else "--embedded: no `streamsapp local` runs it here"])
    return running, {"secret_dir": None}


def _property(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserInputError(f"--property: expected KEY=VALUE, got {text!r}")
    return key, value
