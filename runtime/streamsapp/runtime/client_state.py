"""The states of an instance (Kafka Streams' ``KafkaStreams.State``), and the listeners that hear of them.

The polling thread changes it, and whichever thread of the application closes the instance; one at a time calls the
listener.

          +---------+
          | CREATED |-------------+
          +----+----+             |
               |                  |
        +------v------+           |
        | REBALANCING |<---+      |
        +--+-------+--+    |      |
           |       |       |      |
           |  +----v----+  |      |
           |  | RUNNING |--+      |
           |  +--+---+--+         |
           |     |   |            |
+----------v-----v-+ | +----------v-------+
|  PENDING_ERROR   | +>| PENDING_SHUTDOWN |
+--------+---------+   +--------+---------+
         |                      |
     +---v---+            +-----v-------+
     | ERROR |            | NOT_RUNNING |
     +-------+            +-------------+
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum

log = logging.getLogger(__name__)


class ClientState(Enum):
    """The state of an instance (Kafka Streams' ``KafkaStreams.State``)."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"

    @property
    def ended(self) -> bool:
        """Says whether the instance has ended, in good order or by an error."""
        return self in (ClientState.NOT_RUNNING, ClientState.ERROR)

    @property
    def ending(self) -> bool:
        """Says whether the instance is closing or has ended."""
        return self.ended or self in (ClientState.PENDING_SHUTDOWN, ClientState.PENDING_ERROR)


_ALLOWED: dict[ClientState, frozenset[ClientState]] = {
    ClientState.CREATED: frozenset({ClientState.REBALANCING, ClientState.PENDING_SHUTDOWN, ClientState.PENDING_ERROR}),
    ClientState.REBALANCING: frozenset({ClientState.RUNNING, ClientState.PENDING_SHUTDOWN, ClientState.PENDING_ERROR}),
    ClientState.RUNNING: frozenset({ClientState.REBALANCING, ClientState.PENDING_SHUTDOWN, ClientState.PENDING_ERROR}),
    ClientState.PENDING_SHUTDOWN: frozenset({ClientState.NOT_RUNNING, ClientState.PENDING_ERROR}),
    ClientState.PENDING_ERROR: frozenset({ClientState.ERROR}),
    ClientState.NOT_RUNNING: frozenset(),
    ClientState.ERROR: frozenset(),
}


class StateHolder:
    """The current state; waits and listeners. Threads that wait for a state are woken after the listener was called
    with it."""

    def __init__(self) -> None:
        self._state = self._told = ClientState.CREATED
        self._changed = threading.Condition()
        #: Changes that are not reported yet, the target first; and whether a thread reports them, one for all.
        self._untold: deque[tuple[ClientState, ClientState]] = deque()
        self._telling = False
        self.listener: Callable[[ClientState, ClientState], None] | None = None

    @property
    def state(self) -> ClientState:
        return self._state

    def to(self, target: ClientState) -> bool:
        """Changes the state. Returns ``False``, and changes nothing, if the present state does not allow it."""
        with self._changed:
            old = self._state
            if target not in _ALLOWED[old]:
                return False
            self._state = target
            self._untold.append((target, old))
            if self._telling:  # another thread, or the listener itself
                return True
            self._telling = True
        self._tell()
        return True

    def _tell(self) -> None:
        """Tell of the changes in their order, those of other threads as well."""
        while True:
            with self._changed:
                if not self._untold:
                    self._telling = False
                    return
                target, old = self._untold.popleft()
            log.info("state changed from %s to %s", old.value, target.value)
            try:
                if self.listener is not None:
                    self.listener(target, old)
            except Exception:  # the instance closes, leaves and goes on all the same
                log.exception("the state listener raised when the state became %s; going on", target.value)
            except BaseException:
                self._telling = False
                raise
            finally:
                with self._changed:
                    self._told = target
                    self._changed.notify_all()

    def wait_for(self, predicate: Callable[[ClientState], bool], timeout: float | None) -> bool:
        """Blocks until the state satisfies ``predicate``. Returns ``False`` if that takes more than ``timeout``
        seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: predicate(self._told), timeout)
