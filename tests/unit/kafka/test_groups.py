"""Questions about a consumer group to a broker that takes them and does not answer. A socket of our own; no broker."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from streamsapp import TopicPartition
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StreamsError
from streamsapp.kafka import groups, retry
from streamsapp.kafka.groups import GroupAdmin


def test_a_broker_that_does_not_answer_in_time_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(retry, "GIVE_UP_AFTER", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        group = GroupAdmin(StreamsConfig(application_id="app", bootstrap_servers=servers))
        with pytest.raises(StreamsError, match="cannot ask for the members of group app"):
            group.committed()


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (GroupAdmin.committed, "cannot read the offsets of group app"),
        (lambda group: group.commit({TopicPartition("t", 0): 1}), "cannot set the offsets of group app"),
    ],
)
def test_offsets_that_are_not_told_in_time_are_too(
    ask: Callable[[GroupAdmin], object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(retry, "GIVE_UP_AFTER", 0.0)
    monkeypatch.setattr(GroupAdmin, "_members", lambda group: [])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        group = GroupAdmin(StreamsConfig(application_id="app", bootstrap_servers=servers))
        with pytest.raises(StreamsError, match=told):
            ask(group)
