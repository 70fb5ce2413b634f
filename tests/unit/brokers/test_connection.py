"""The pinned client is the one that this package knows."""

from __future__ import annotations

import pytest

from streamsapp.brokers import connection
from streamsapp.errors import StreamsError


def test_the_installed_client_is_the_one_that_is_known() -> None:
    connection.check_client()


def test_another_release_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka.version.__version__", "9.9.9")

    with pytest.raises(
        StreamsError, match=f"kafka-python 9.9.9 is installed; install kafka-python=={connection.PINNED}"
    ):
        connection.check_client()


def test_a_part_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("kafka.net.selector.NetworkSelector.sleep")

    with pytest.raises(StreamsError, match=r"kafka\.net\.selector\.NetworkSelector\.sleep .* is not what it was"):
        connection.check_client()


def test_a_part_that_takes_something_else_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka.net.connection.KafkaConnection.send_request", lambda self, request: None)

    with pytest.raises(StreamsError, match=r"KafkaConnection\.send_request"):
        connection.check_client()
