"""Shows keys, results and entries of a program as text for people, by its own serdes. Used on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from streamsapp.config import StreamsConfig
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.serdes.api import or_configured
from streamsapp.topology.nodes import SinkNode
from streamsapp_spark.preview.task import STATE
from streamsapp_spark.snapshots.database_comparison import EntryReader, EntryText, text_or_bytes

_headers = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]])


class ProgramText:
    """The text of what one program sends and keeps."""

    def __init__(self, layout: ApplicationLayout, config: StreamsConfig) -> None:
        self._config = config
        plans = list(layout.plans.values())
        nodes = {node.name: node for plan in plans for node in plan.sub_topology.nodes if isinstance(node, SinkNode)}
        self._sinks = {node.topic: node for node in nodes.values() if isinstance(node.topic, str)}
        #: Sinks that choose the topic per record: the last one, if there are several.
        self._dynamic = next((node for node in nodes.values() if not isinstance(node.topic, str)), None)
        self._stores = {
            store.name: EntryText(EntryReader(store, plan.changelog_topics.get(store.name, store.name), config))
            for plan in plans
            for store in plan.sub_topology.stores
        }

    def knows(self, kind: int, name: str) -> bool:
        """Says whether the program writes this topic, or has this store."""
        return name in (self._stores if kind == STATE else self._sinks)

    def key(self, kind: int, name: str, key: bytes | None) -> str:
        if kind == STATE:
            return self._stores[name].key(key or b"")
        return self._decoded(name, key, is_key=True)

    def value(self, kind: int, name: str, sent: Mapping[str, Any] | None) -> str:
        """Returns the text of a result with its time, or of an entry."""
        if kind == STATE:
            return self._stores[name].value(None if sent is None or sent["value"] is None else bytes(sent["value"]))
        if sent is None:
            return "nothing"
        headers = "" if sent["headers"] is None else f" with headers {_headers.decode(sent['headers'])}"
        partition = "" if sent["partition"] < 0 else f" in partition {sent['partition']}"
        value = self._decoded(name, None if sent["value"] is None else bytes(sent["value"]), is_key=False)
        return f"{value} of time {sent['timestamp']}{headers}{partition}"

    def _decoded(self, topic: str, data: bytes | None, *, is_key: bool) -> str:
        if data is None:
            return "None"
        node, config = self._sinks.get(topic, self._dynamic), self._config
        key, value = (None, None) if node is None else (node.key_serde, node.value_serde)
        serde = key or config.default_key_serde if is_key else or_configured(value, config.default_serdes)
        return text_or_bytes(serde.bind(topic, is_key=is_key).deserialize, data)
