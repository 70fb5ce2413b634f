"""Pairs of times that only work in one order are refused when the configuration is made."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer

from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import ConfigError

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"


def config(guarantee: str, **settings: Any) -> StreamsConfig:
    return StreamsConfig(
        application_id="app", bootstrap_servers="127.0.0.1:1", processing_guarantee=guarantee, **settings
    )


@pytest.mark.parametrize(
    ("guarantee", "settings", "named", "remedy"),
    [
        (
            EXACTLY_ONCE,
            {"commit_interval_ms": 600_000},
            "commit_interval_ms: ",
            "set producer.transaction.timeout.ms to 660000 or more",
        ),
        (EXACTLY_ONCE, {"commit_interval_ms": 60_000}, "commit_interval_ms: ", "to 66000 or more"),
        (
            EXACTLY_ONCE,
            {"commit_interval_ms": 900_000},
            "commit_interval_ms: ",
            "to 990000 or more (brokers take 900000 unless their transaction.max.timeout.ms is raised)",
        ),
        (
            EXACTLY_ONCE,
            {"commit_interval_ms": 5_000, "kafka": {"transaction.timeout.ms": "5000"}},
            "commit_interval_ms: ",
            "set transaction.timeout.ms to 5500 or more",
        ),
        (
            EXACTLY_ONCE,
            {
                "commit_interval_ms": 5_000,
                "kafka": {"transaction.timeout.ms": "9000", "producer.transaction.timeout.ms": 5000},
            },
            "commit_interval_ms: ",
            "set producer.transaction.timeout.ms to 5500 or more",
        ),
        (
            EXACTLY_ONCE,
            {"kafka": {"delivery.timeout.ms": "120000"}},
            "kafka property 'delivery.timeout.ms': ",
            "set producer.transaction.timeout.ms to 120000 or more",
        ),
        (
            EXACTLY_ONCE,
            {"kafka": {"message.timeout.ms": "120000"}},
            "kafka property 'message.timeout.ms': ",
            "set producer.transaction.timeout.ms to 120000 or more",
        ),
        (
            EXACTLY_ONCE,
            {"kafka": {"socket.timeout.ms": "90000"}},
            "kafka property 'socket.timeout.ms': ",
            "set producer.transaction.timeout.ms to 89900 or more",
        ),
        (
            EXACTLY_ONCE,
            {"kafka": {"producer.linger.ms": "60000"}},
            "kafka property 'producer.linger.ms': ",
            "set producer.transaction.timeout.ms to 60001 or more",
        ),
        (
            AT_LEAST_ONCE,
            {"kafka": {"linger.ms": "5000"}},
            "kafka property 'linger.ms': ",
            "set producer.delivery.timeout.ms to 5001 or more",
        ),
        (
            AT_LEAST_ONCE,
            {"kafka": {"linger.ms": "1500", "session.timeout.ms": "2000"}},
            "kafka property 'linger.ms': ",
            "to 1501 or more, or lower linger.ms",
        ),
        (
            AT_LEAST_ONCE,
            {"kafka": {"delivery.timeout.ms": "5"}},
            "kafka property 'delivery.timeout.ms': ",
            "set delivery.timeout.ms to 21 or more, or lower producer.linger.ms",
        ),
        (
            AT_LEAST_ONCE,
            {"kafka": {"request.timeout.ms": "4000", "delivery.timeout.ms": "4000"}},
            "kafka property 'delivery.timeout.ms': ",
            "to 4020 or more",
        ),
        (
            AT_LEAST_ONCE,
            {"kafka": {"heartbeat.interval.ms": "6000"}},
            "kafka property 'heartbeat.interval.ms': ",
            "set session.timeout.ms to 6001 or more, or lower heartbeat.interval.ms",
        ),
        (
            EXACTLY_ONCE,
            {"kafka": {"main.consumer.heartbeat.interval.ms": 9000, "consumer.session.timeout.ms": "9000"}},
            "kafka property 'main.consumer.heartbeat.interval.ms': ",
            "set consumer.session.timeout.ms to 9001 or more",
        ),
        (
            EXACTLY_ONCE,
            {"max_poll_interval_ms": 1000, "kafka": {"heartbeat.interval.ms": "1500"}},
            "kafka property 'heartbeat.interval.ms': ",
            "set max_poll_interval_ms to 1501 or more",
        ),
        (
            EXACTLY_ONCE,
            {"max_poll_interval_ms": 100},
            "max_poll_interval_ms: ",
            "set max_poll_interval_ms to 251 or more",
        ),
        (
            EXACTLY_ONCE,
            {"kafka": {"fetch.wait.max.ms": "60000"}},
            "kafka property 'fetch.wait.max.ms': ",
            "set consumer.socket.timeout.ms to 61000 or more",
        ),
        (
            EXACTLY_ONCE,
            {"kafka": {"restore.consumer.fetch.wait.max.ms": "5000", "socket.timeout.ms": "5000"}},
            "kafka property 'restore.consumer.fetch.wait.max.ms': ",
            "set socket.timeout.ms to 6000 or more",
        ),
        (
            AT_LEAST_ONCE,
            {"kafka": {"reconnect.backoff.ms": "20000"}},
            "kafka property 'reconnect.backoff.ms': ",
            "set reconnect.backoff.max.ms to 20000 or more",
        ),
        (
            AT_LEAST_ONCE,
            {"kafka": {"admin.reconnect.backoff.max.ms": "50"}},
            "kafka property 'admin.reconnect.backoff.max.ms': ",
            "to 100 or more, or lower reconnect.backoff.ms",
        ),
        (
            AT_LEAST_ONCE,
            {"client": "librdkafka", "kafka": {"producer.retry.backoff.ms": "9", "retry.backoff.max.ms": "8"}},
            "kafka property 'producer.retry.backoff.ms': ",
            "set retry.backoff.max.ms to 9 or more",
        ),
    ],
)
def test_times_in_the_wrong_order_are_refused_by_name_with_the_remedy(
    guarantee: str, settings: dict[str, Any], named: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        config(guarantee, **settings)

    assert str(raised.value).startswith(named)
    assert remedy in str(raised.value)


@pytest.mark.parametrize(
    ("guarantee", "settings"),
    [
        (EXACTLY_ONCE, {"commit_interval_ms": 54_545}),
        (EXACTLY_ONCE, {"commit_interval_ms": 600_000, "kafka": {"producer.transaction.timeout.ms": "660000"}}),
        (AT_LEAST_ONCE, {"commit_interval_ms": 600_000}),
        (AT_LEAST_ONCE, {"kafka": {"socket.timeout.ms": "90000", "delivery.timeout.ms": "120000"}}),
        (AT_LEAST_ONCE, {"kafka": {"delivery.timeout.ms": "0", "linger.ms": "5000"}}),  # 0 is without end
        (AT_LEAST_ONCE, {"kafka": {"request.timeout.ms": "30000"}}),  # no longer than the record may wait
        (EXACTLY_ONCE, {"kafka": {"producer.transaction.timeout.ms": "5000"}}),
        (EXACTLY_ONCE, {"kafka": {"heartbeat.interval.ms": "3000"}}),  # as in Java
        (EXACTLY_ONCE, {"kafka": {"consumer.transaction.timeout.ms": "1000"}}),  # no producer's
        (EXACTLY_ONCE, {"kafka": {"linger.ms": "0.5"}}),
        # Which the client refuses.
        (EXACTLY_ONCE, {"client": "librdkafka", "kafka": {"linger.ms": "soon", "transaction.timeout.ms": "nan"}}),
        (EXACTLY_ONCE, {"kafka": {"retry.backoff.ms": "2000"}}),
    ],
)
def test_times_that_fit_are_taken(guarantee: str, settings: dict[str, Any]) -> None:
    config(guarantee, **settings)


def test_a_session_longer_than_five_minutes_is_taken_by_every_consumer() -> None:
    made = config(EXACTLY_ONCE, kafka={"session.timeout.ms": "500000"})
    for properties in (client_properties.main_consumer(made), client_properties.restore_consumer(made)):
        Consumer(client_properties.chosen(properties)[1] | {"log_level": 0}).close()
