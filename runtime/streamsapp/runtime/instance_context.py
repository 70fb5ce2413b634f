"""The things that the parts of one instance share.

Made when the instance starts, on the application's thread; every part that needs several of them is given all.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from queue import SimpleQueue

from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.deadline import ClosingTime
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.runtime.call_loop import CallLoopThread
from streamsapp.runtime.extensions import Extensions
from streamsapp.runtime.thread_failure import ThreadFailure


@dataclass(frozen=True)
class InstanceContext:
    """The shared parts of one started instance."""

    config: StreamsConfig
    clock: Clock
    extensions: Extensions
    admin: TopicAdmin
    closing: ClosingTime
    #: From every thread to the polling thread.
    failures: SimpleQueue[ThreadFailure]
    #: Told how to close each client as it is made: an instance that is not started in the end leaves none open.
    clients: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def call_loop(self) -> CallLoopThread:
        """Makes the calls of coroutine functions."""
        return CallLoopThread(f"{self.config.client_id}-calls", self.failures)
