"""``kubectl streamsapp status NAME``: shows everything that is known of an application, once or over and over. Runs on
the main thread."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.documents import AppPod, StreamsAppSummary, read_app, read_pod, seconds_since
from streamsapp_operator.plugin.session import CommandSession, Document, OperatorSeen
from streamsapp_operator.plugin.status_view import status_lines
from streamsapp_operator.plugin.style import Tone

#: An operator has taken notice of an application by then.
_NOTICED_SECONDS = 10.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "status",
        "phase, tasks, standbys, pods, and what blocks a restart",
        "Pods report lags and ages; '?' means not known, never 0.",
        run,
    )
    parser.add_argument("-w", "--watch", action="store_true", help="show it again every 2 seconds, until Ctrl-C")


def run(options: argparse.Namespace, session: CommandSession) -> int:
    while True:
        if options.output == "json":
            session.print_json(_as_data(*fetch(options.name, session)))
        else:
            lines = list(_lines(options.name, session))
            if options.watch:
                session.clear()
            session.print(lines)
        if not options.watch:
            return 0
        session.wait(2.0)


def fetch(name: str, session: CommandSession) -> tuple[Document, list[Document], list[AppPod]]:
    """Returns the application, its pods as objects, and the pods with their own reports."""
    app, objects = session.cluster.app(name), session.cluster.pods(name)
    answers = session.cluster.reports(name, objects)
    return app, objects, [read_pod(each, answers[each["metadata"]["name"]]) for each in objects]


def _lines(name: str, session: CommandSession) -> Iterator[str]:
    document, _, pods = fetch(name, session)
    app, now = read_app(document), session.now()
    yield from status_lines(app, pods, now, session.style)
    if not app.attended and (seconds_since(app.created, now) or 0) > _NOTICED_SECONDS:
        yield ""
        for line in unattended(app, session.cluster.operators()):
            yield session.style.paint(f"  {line}", Tone.WARN)
    nobody = forsaken(app, session.cluster.operators()) if app.attended else None
    if nobody is not None:
        yield ""
        yield session.style.paint(f"  {nobody}", Tone.WARN)


def forsaken(app: StreamsAppSummary, operators: Sequence[OperatorSeen] | None) -> str | None:
    """Warns if no operator looks after the application any more, as far as can be seen: its status is old then."""
    if operators is None:  # only what the application itself reports
        behind = app.status.observed_generation < app.generation
        return "No operator has seen the last change yet: does one run?" if behind else None
    ours = [each for each in operators if each.watched is None or app.namespace in each.watched]
    if any(each.running for each in ours):
        return None
    names = ", ".join(f"Deployment {each.name} in namespace {each.namespace} has no ready pod" for each in ours)
    why = names or "there is no Deployment of one that watches this namespace"
    return f"No operator runs ({why}): the status is as it was left, and nothing is done that is asked for."


def unattended(app: StreamsAppSummary, operators: Sequence[OperatorSeen] | None) -> Iterator[str]:
    """Returns why no operator looks after an application, as far as can be seen."""
    yield f"No operator has looked at {app.name} yet."
    if operators is None:
        yield f"By default an operator runs applications in its own namespace: is it {app.namespace}?"
    elif not operators:
        yield f"There is none in this cluster: helm install streamsapp charts/streamsapp -n {app.namespace}"
    for each in operators or ():
        where = f"Deployment {each.name} in namespace {each.namespace}"
        if each.watched is None or app.namespace in each.watched:
            yield f"{where} should: kubectl logs -n {each.namespace} deployment/{each.name}"
        else:
            watched = ", ".join(each.watched)
            yield f"{where} watches {watched}, not {app.namespace}: add it to the chart's watch.namespaces"


def _as_data(app: Document, objects: Sequence[Document], pods: Sequence[AppPod]) -> Document:
    """Returns the application as it is, and for each pod its own report or why there is none."""
    return {
        "app": app,
        "pods": [
            {
                "name": pod.name,
                "ready": pod.ready,
                "phase": pod.phase,
                "restarts": pod.restarts,
                "revision": pod.revision,
                "node": pod.node,
                "createdAt": each["metadata"].get("creationTimestamp"),
                "status": pod.answer.document,
                "fault": pod.answer.fault or None,
            }
            for each, pod in zip(objects, pods, strict=True)
        ],
    }
