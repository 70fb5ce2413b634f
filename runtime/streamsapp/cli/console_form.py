"""The form of the console that writes test records; only ``local`` has it, where the broker is the user's own.

Called on threads of the HTTP server.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from http import HTTPStatus
from urllib.parse import parse_qs

from streamsapp.cli.kafka_cluster import KafkaCluster
from streamsapp.cli.produce import RecordWriter
from streamsapp.cli.target import partitions_of
from streamsapp.cli.topic_serdes import TopicRecords, records_of
from streamsapp.cli.topology_topics import topics_of
from streamsapp.config import StreamsConfig
from streamsapp.errors import StreamsError, UserInputError
from streamsapp.topology.builder import Topology
from streamsapp.web.request_routing import HttpRequest, HttpResponse, Route, Routes, json_response

#: Used where it is not known what a serde takes.
_ANY = '{"key": null, "value": null}'


def form_routes(topology: Topology, config: StreamsConfig, samples: Mapping[str, str]) -> Routes:
    """The routes of the form, for the topics that the application reads, with a line of each to begin with."""
    form = RecordForm(topology, config, samples)
    return {
        "/console/topics": Route(lambda _: json_response({"topics": form.topics()})),
        "/console/produce": Route(form.produce, method="POST"),
    }


class RecordForm:
    """Writes records that a user typed."""

    def __init__(self, topology: Topology, config: StreamsConfig, samples: Mapping[str, str]) -> None:
        self._config = config
        self._samples = samples
        sources = sorted(topics_of(topology, config.application_id).sources)
        found = {name: records_of(topology, config, name) for name in sources}
        self._records: dict[str, TopicRecords] = {name: it for name, it in found.items() if it is not None}

    def topics(self) -> list[dict[str, str]]:
        """The topics, the serdes of their records, and a record of each to begin with."""
        return [
            {"name": name, "key": it.key.name, "value": it.value.name, "sample": self._samples.get(name, _ANY)}
            for name, it in self._records.items()
        ]

    def produce(self, request: HttpRequest) -> HttpResponse:
        """``POST /console/produce?topic=&line=``: writes one record; answers when the broker has it."""
        given = parse_qs(request.query, keep_blank_values=True)
        topic, line = (given.get(name, [""])[-1] for name in ("topic", "line"))
        try:
            return json_response({"told": self._write(topic, line)})
        except UserInputError as error:
            return json_response({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except StreamsError as error:
            return json_response({"error": str(error)}, HTTPStatus.BAD_GATEWAY)

    def _write(self, topic: str, line: str) -> str:
        if topic not in self._records:
            raise UserInputError(f"topic: expected one of {', '.join(self._records)}, got {topic!r}")
        with closing(KafkaCluster(self._config)) as cluster:
            partitions = partitions_of(topic, cluster.partitions())
        return RecordWriter(self._config, topic, partitions, self._records[topic]).write_one(line.encode())
