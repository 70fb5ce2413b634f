"""Starts a broker again that ended by itself, as one does that the system has killed for its memory.

Called by ``streamsapp local`` on the main thread; a thread of its own looks after the broker meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from streamsapp.errors import StreamsAppError
from streamsapp.local.broker import EmbeddedBroker

log = logging.getLogger(__name__)

#: Seconds between two looks, and before a start that failed is tried again.
_PERIOD, _PAUSE = 0.5, 5.0


@contextmanager
def kept_running(broker: EmbeddedBroker) -> Iterator[None]:
    """Meanwhile the broker is started again, on its address and its topics, whenever it ends."""
    over = threading.Event()
    thread = threading.Thread(target=_look_after, args=(broker, over), name="broker", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _look_after(broker: EmbeddedBroker, over: threading.Event) -> None:
    while not over.wait(_PERIOD):
        code = broker.ended_with
        if code is None:
            continue
        how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        log.error("the broker %s; see %s. It is started again, with its topics", how, broker.log_file)
        broker.kill()  # nothing of it is left to end, and it may be started
        while not over.is_set():
            try:
                broker.start()
            except StreamsAppError as error:
                log.error("the broker cannot be started again: %s; it is tried again in %g s", error, _PAUSE)
                over.wait(_PAUSE)
            else:
                log.warning("the broker runs again at %s", broker.bootstrap_servers)
                break
