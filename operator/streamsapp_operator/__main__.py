"""The ``streamsapp-operator`` command: settings, Lease, then kopf until asked to end.

Runs on the main thread. 0: asked to end. 1: the Lease was lost, or watching failed for good. 2: the settings are wrong.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
import sys
import threading
from collections.abc import Collection, Sequence
from contextlib import closing

import kopf

from streamsapp.clock import SystemClock
from streamsapp.errors import UserInputError
from streamsapp.web import HttpServer
from streamsapp_operator.console.routes import console_routes
from streamsapp_operator.handlers import make_registry, make_settings
from streamsapp_operator.kube.client import Client, login
from streamsapp_operator.kube.definition import every_field
from streamsapp_operator.kube.lease import Lease
from streamsapp_operator.logs import set_up_logging
from streamsapp_operator.loop import Key, Loops
from streamsapp_operator.metrics import OperatorMetrics
from streamsapp_operator.observe import PodAsker
from streamsapp_operator.packaged_files import chart_folder, definition
from streamsapp_operator.plan import plan
from streamsapp_operator.probes import OperatorHealth, probe_routes
from streamsapp_operator.reconcile import OperatorContext
from streamsapp_operator.served_namespaces import served_apps, wait_served
from streamsapp_operator.settings import Settings, parse
from streamsapp_operator.shared_informers import make_cache, make_informers
from streamsapp_operator.steady_clock import SteadyClock
from streamsapp_operator.watch_health import Lister, WatchAge

DONE, FAILED, WRONG_INPUT = 0, 1, 2
#: The time that loops may take to finish what they are at, in seconds.
_LEAVE_SECONDS = 12.0
#: Seconds between two checks whether a signal came before kopf took them.
_STOP_SECONDS = 0.2

log = logging.getLogger("streamsapp_operator")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until asked to end; ``chart`` alone prints where the Helm chart is."""
    given = sys.argv[1:] if arguments is None else arguments
    if list(given) == ["chart"]:
        print(chart_folder())
        return DONE
    try:
        settings = parse(given)
        set_up_logging(settings.log_level, settings.log_format)
        return run(settings)
    except UserInputError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT


def run(settings: Settings) -> int:
    """Stands by until this operator leads, then works."""
    clock, figures = SteadyClock(SystemClock()), OperatorMetrics()
    health = OperatorHealth(clock, figures)
    account = login()
    client = Client(account, figures.heard)
    lease = Lease(
        client, settings.namespace, settings.lease_name, settings.identity, clock, seconds=settings.lease_seconds
    )
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda number, frame: stop.set())
    with closing(HttpServer(settings.http_port)) as server:
        console = console_routes(account, settings.namespaces, clock) if settings.console else {}
        server.start({**probe_routes(health), **console})
        log.info("watches %s; probes on port %d", ", ".join(settings.namespaces) or "all namespaces", server.port)
        if not lease.acquire(stop):
            return DONE
        figures.leader.set(1)
        tools = OperatorContext(
            client=client,
            asker=PodAsker(clock),
            clock=clock,
            settings=settings.render,
            key=settings.key,
            reporter=settings.identity,
            may_act=lambda: lease.held,
            plan=plan,
            cache=make_cache(client),
            known_fields=every_field(definition()),
            list_apps=lambda: served_apps(client, settings.namespaces),
        )
        passed_over = wait_served(client, settings.namespaces, stop)
        code = DONE if passed_over is None else _work(settings, tools, figures, health, stop, passed_over)
        lease.release()
        log.info("ends")
        return code


def _work(
    settings: Settings,
    tools: OperatorContext,
    figures: OperatorMetrics,
    health: OperatorHealth,
    stop: threading.Event,
    passed_over: Collection[str],
) -> int:
    """Runs until asked to end; ``passed_over`` are namespaces whose watches are not waited for."""

    def is_watched(namespace: str) -> bool:
        return informers.have_synced(namespace)

    tools = dataclasses.replace(tools, is_watched=is_watched)
    loops, age = Loops(tools, figures), WatchAge(tools.clock.now())
    missed = lambda namespace, name: loops.saw(Key(namespace, name))  # noqa: E731
    lister = Lister(tools.client, settings.namespaces, age, tools.clock, missed)
    assert tools.cache is not None
    informers = make_informers(tools.client, tools.cache, settings.namespaces, loops, tools.clock)
    informers.start()
    if not informers.wait_synced(stop, passed_over):
        return DONE
    health.working = (age, loops)
    lister.start()
    try:
        asyncio.run(_watch(settings, make_registry(loops, age, tools.clock), stop))
        return DONE
    except Exception:
        log.exception("watching failed")
        return FAILED
    finally:
        lister.stop()
        informers.stop()
        loops.close(_LEAVE_SECONDS)
        tools.asker.close()


async def _watch(settings: Settings, registry: kopf.OperatorRegistry, stop: threading.Event) -> None:
    """Runs kopf. It takes signals from some moment on; an earlier signal is in ``stop``."""
    leave = asyncio.Event()

    async def follow() -> None:
        while not stop.is_set():
            await asyncio.sleep(_STOP_SECONDS)
        leave.set()

    following = asyncio.create_task(follow())
    try:
        await kopf.operator(
            registry=registry,
            settings=make_settings(),
            namespaces=settings.namespaces,
            clusterwide=not settings.namespaces,
            standalone=True,
            stop_flag=leave,
            # Its own guess needs a name for the user, which a pod's has not.
            identity=settings.identity,  # type: ignore[arg-type]
        )
    except asyncio.CancelledError:
        log.debug("kopf was asked to end")
    finally:
        following.cancel()


if __name__ == "__main__":
    sys.exit(main())
