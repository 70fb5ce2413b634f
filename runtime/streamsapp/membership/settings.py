"""The membership's settings, from the same properties that configure the clients.

Pure; used on the polling thread when the membership is made. Names are librdkafka's.
"""

from __future__ import annotations

from streamsapp.config.client_properties import ClientProperties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ConfigError
from streamsapp.membership.wire import GroupSettings

#: A member learns of a rebalance by its next heartbeat: this is most of the time of a move. It costs less than a
#: percent of a core.
HEARTBEAT_INTERVAL_MS = 100
#: A member that has little or nothing to do may learn of it a little later, unless the user has said how soon.
#: Heartbeats are most of the cost of an idle instance. A multiple: all members beat at the same moments.
RESTING_INTERVAL_MS = 2 * HEARTBEAT_INTERVAL_MS


def group_settings(config: StreamsConfig, properties: ClientProperties) -> GroupSettings:
    """The settings that the coordinator gets; ``properties`` are the main consumer's."""
    session = config.session_timeout_ms
    heartbeat = _milliseconds(properties, "heartbeat.interval.ms", min(HEARTBEAT_INTERVAL_MS, session // 3))
    resting = _milliseconds(properties, "heartbeat.interval.ms", RESTING_INTERVAL_MS)
    return GroupSettings(
        group_id=config.application_id,
        instance_id=config.group_instance_id,
        session_timeout=session / 1000,
        heartbeat_interval=heartbeat / 1000,
        rebalance_timeout=config.max_poll_interval_ms / 1000,
        resting_interval=resting / 1000,
    )


def _milliseconds(properties: ClientProperties, key: str, default: int) -> int:
    value = properties.get(key, default)
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigError(f"{key}: expected a number of milliseconds, got {value!r}")
    return number
