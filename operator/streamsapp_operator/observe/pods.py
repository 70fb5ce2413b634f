"""Reads pods as the API server has them. Pure.

Called by the observer, and by the plugin. A pod belongs to an application if its StatefulSet made it: any user can set
labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from streamsapp.manifest.member_notice import read_notice
from streamsapp_operator.children.names import CONTAINER, PORT, PROGRAM_LABEL, REVISION_LABEL
from streamsapp_operator.kube.kinds import Object, label
from streamsapp_operator.model.observed_state import PodReport, PodSeen
from streamsapp_operator.observe.exchange import Address

_LONGEST_MESSAGE = 1000
#: Levels of lines of a log that may say why a container ended.
_ERRORS = frozenset({"ERROR", "CRITICAL", "FATAL"})
#: The seconds that the kubelet needs at most to report a pod that it takes.
_TAKING_SECONDS = 5.0


def ordinal_of(pod: Object, app: str) -> int | None:
    """Returns the pod's number in the application's StatefulSet, ``None`` if it is none of its pods."""
    owners = pod["metadata"].get("ownerReferences") or ()
    ours = any(it.get("controller") and it["kind"] == "StatefulSet" and it["name"] == app for it in owners)
    number = pod["metadata"]["name"].removeprefix(f"{app}-")
    return int(number) if ours and number.isdecimal() else None


def address_of(pod: Object) -> Address | None:
    """Returns the address at which the pod is asked; ``None`` before it runs."""
    host = pod["status"].get("podIP")
    if not host or pod["status"].get("phase") != "Running":
        return None
    ports = (port for it in pod["spec"]["containers"] if it["name"] == CONTAINER for port in it.get("ports") or ())
    return Address(host, next((port["containerPort"] for port in ports if port.get("name") == "http"), PORT))


def pod_seen(pod: Object, ordinal: int, answer: PodReport | str) -> PodSeen:
    """Reads a pod; ``answer`` is its own report, or why there is none."""
    metadata, status = pod["metadata"], pod["status"]
    container = container_status(status)
    reason, message = waiting(pod)
    return PodSeen(
        name=metadata["name"],
        uid=metadata["uid"],
        ordinal=ordinal,
        revision=label(pod, REVISION_LABEL),
        ready=condition(status, "Ready").get("status") == "True",
        terminating="deletionTimestamp" in metadata,
        created_at=seconds(metadata["creationTimestamp"]),
        resource_version=metadata["resourceVersion"],
        address=status.get("podIP"),
        phase=status.get("phase") or "Pending",
        restarts=int(container.get("restartCount") or 0),
        started=container.get("started"),
        answers_probes=bool(container.get("ready")),
        running_since=_running_since(container),
        was_ready=_was_ready(status),
        waiting_reason=reason,
        waiting_message=message,
        last_exit=last_exit(container),
        report=answer if isinstance(answer, PodReport) else None,
        unreachable=answer if isinstance(answer, str) else None,
        program=label(pod, PROGRAM_LABEL),
        node=pod["spec"].get("nodeName"),
        node_lost=_is_node_lost(pod),
    )


def _is_node_lost(pod: Object) -> bool:
    """Says whether the node of a pod no longer reports. A kubelet calls a pod ready if its containers and its readiness
    gates are; it is Kubernetes' node controller that takes ``Ready`` alone away, from all pods of a node that is
    silent. The operator has no right to look at nodes, and needs none for this."""
    status = pod["status"]
    if not pod["spec"].get("nodeName") or condition(status, "Ready").get("status", "True") == "True":
        return False
    gates = (it.get("conditionType") for it in pod["spec"].get("readinessGates") or ())
    return all(condition(status, str(kind)).get("status") == "True" for kind in ("ContainersReady", *gates))


def _running_since(container: Object) -> float | None:
    at = state_of(container, "running").get("startedAt")
    return None if at is None else seconds(at)


def _was_ready(status: Object) -> bool:
    """Says whether the pod was ever ready. It is not ready from when the kubelet takes it on, and that is no
    transition: a later one is its end."""
    ready, taken = condition(status, "Ready"), status.get("startTime")
    since = ready.get("lastTransitionTime")
    if ready.get("status") == "True":
        return True
    return None not in (since, taken) and seconds(str(since)) - seconds(str(taken)) > _TAKING_SECONDS


def container_status(status: Object) -> Object:
    """Returns the status of the container that runs the application; it is empty before there is one."""
    found = (it for it in status.get("containerStatuses") or () if it.get("name") == CONTAINER)
    return next(found, {})


def terminated(container: Object) -> Object | None:
    """Returns how the container ended: now, or the last time."""
    for state in ("state", "lastState"):
        ended: Object | None = (container.get(state) or {}).get("terminated")
        if ended is not None:
            return ended
    return None


def ended_members(pod: Object) -> Iterator[str]:
    """Returns the members of the group that processes of the pod's container were which have ended, as the container
    named them itself: its termination message belongs to one run of it, that has ended with all its processes."""
    container = container_status(pod["status"])
    for state in ("state", "lastState"):
        ended = (container.get(state) or {}).get("terminated") or {}
        yield from read_notice(str(ended.get("message") or "")) or ()


def last_exit(container: Object) -> str | None:
    """Returns how the container ended as text, such as ``exit 2: spec.kafka.bootstrapServers: ...``."""
    ended = terminated(container)
    if ended is None:
        return None
    reason = f" ({ended['reason']})" if ended.get("reason") not in (None, "Error", "Completed") else ""
    text = str(ended.get("message") or "")
    message = "" if read_notice(text) is not None else _last_words(text)
    return _short(f"exit {ended.get('exitCode')}{reason}{': ' if message else ''}{message}")


def _last_words(message: str) -> str:
    """Returns why a container ended, from the end of its log, which begins anywhere: the message of a command at its
    end, in lines of its own, or the exception of a traceback there; else the last error that was logged, with its
    exception; else the last line. Lines logged while it ends, of clients that are closed say, are no reason."""
    logged: list[Object] = []
    said: list[str] = []
    for line in message.splitlines():
        entry = _entry_of(line)
        if entry is not None:
            logged.append(entry)
            said = []
        elif line.strip():
            said.append(line.rstrip())
    if said:
        return _without_frames(said)
    errors = [entry for entry in logged if entry.get("level") in _ERRORS]
    return _text_of(errors[-1] if errors else logged[-1]) if logged else ""


def _without_frames(lines: list[str]) -> str:
    """Returns the lines, and of a traceback among them the exception alone, which is what follows its last frame."""
    if not any(line.startswith("Traceback") for line in lines):
        return "; ".join(line.strip() for line in lines)
    last = max(number for number, line in enumerate(lines) if line.startswith((" ", "Traceback")))
    return "; ".join(line.strip() for line in lines[last + 1 :] or lines[-1:])


def _entry_of(line: str) -> Object | None:
    """Returns a line of a structured log; ``None`` if it is none."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "message" in document else None


def _text_of(entry: Object) -> str:
    """Returns the message of a line of a log, and the exception that it has."""
    message, lines = str(entry["message"]), str(entry.get("exception") or "").splitlines()
    exception = _without_frames(lines) if lines else ""
    return message if not exception or exception in message else f"{message}: {exception}"


def waiting(pod: Object) -> tuple[str | None, str | None]:
    """Returns why a pod does not run, and the known facts; nothing if it runs."""
    status = pod.get("status") or {}
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return scheduled.get("reason") or "Unschedulable", _short(scheduled.get("message") or "no node takes it")
    runtime = container_status(status)
    if (runtime.get("state") or {}).get("running") is not None:
        return None, None  # a sidecar that does not run is its own affair: the application runs, and holds its tasks
    for container in [*(status.get("initContainerStatuses") or ()), runtime]:
        if (found := state_of(container, "waiting")) and found.get("reason") != "PodInitializing":
            reason = str(found.get("reason") or "Waiting")
            return reason, _short(found.get("message") or _needs(pod, reason))
    return None, None


def state_of(container: Object, kind: str) -> Object:
    """Returns the container's state if it is of this kind (``waiting``, ``running``, ``terminated``), otherwise an
    empty one."""
    return (container.get("state") or {}).get(kind) or {}


def _needs(pod: Object, reason: str) -> str | None:
    """Names the Secrets that a pod needs: the kubelet reports a missing one in events, which the operator does not
    read."""
    if reason != "ContainerCreating":
        return None
    names = sorted(set(_secrets(pod["spec"].get("volumes") or ())))
    return f"it starts once its volumes are there; it needs Secret {', '.join(names)}" if names else None


def _secrets(volumes: Iterable[dict[str, Any]]) -> Iterator[str]:
    for volume in volumes:
        secret = volume.get("secret") or {}
        if "secretName" in secret and not secret.get("optional"):
            yield secret["secretName"]


def condition(status: Object, kind: str) -> Object:
    """Returns the condition of this type, empty if the pod has none."""
    return next((it for it in status.get("conditions") or () if it["type"] == kind), {})


def seconds(timestamp: str) -> float:
    """Returns seconds of Unix time."""
    return datetime.fromisoformat(timestamp).timestamp()


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 3]}..."
