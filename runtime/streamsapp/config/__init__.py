"""Configuration: typed, validated, and turned into the properties of the Kafka clients."""

from streamsapp.config.memory import MemoryBudget
from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.config.settings import AT_LEAST_ONCE, EXACTLY_ONCE
from streamsapp.config.streams_config import StreamsConfig

__all__ = ["AT_LEAST_ONCE", "EXACTLY_ONCE", "MemoryBudget", "RemoteStateConfig", "StreamsConfig"]
