"""Reads the pods that check a revision: whether they are done, and their findings. Pure.

Called by the observer. Their result is their container's termination message: JSON
``{"faults": [...], "shape": {"sources": {"0": [...]}, "stores": {"0": {"name": "kind"}}}}``, or with ``shapeGz``, the
shape compressed and in base64, where it is long. The user's code runs in them, so nothing of it is taken on trust.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from streamsapp.structs import decoded
from streamsapp_operator.children.names import REVISION_LABEL
from streamsapp_operator.kube.kinds import Object, label
from streamsapp_operator.model.observed_state import CheckSeen, CheckState, TopologyShape
from streamsapp_operator.model.waiting_reasons import CANNOT_RUN_ONCE, START_SECONDS
from streamsapp_operator.observe.pods import container_status, last_exit, seconds, terminated, waiting

#: Decompressed.
_MAX_SHAPE_BYTES = 1 << 20
_MAX_FAULTS = 50
_MAX_FAULT = 2000


class _Shape(Struct, frozen=True):
    sources: dict[Annotated[int, Meta(ge=0)], tuple[str, ...]] = {}
    stores: dict[Annotated[int, Meta(ge=0)], dict[str, str]] = {}


class _Message(Struct, frozen=True, rename="camel"):
    faults: tuple[str, ...] = ()
    shape: _Shape | None = None
    shape_gz: str | None = None


def check_seen(pod: Object, now: float) -> CheckSeen:
    """Returns the facts that are known from a check pod."""
    revision = label(pod, REVISION_LABEL) or ""
    started_at = seconds(pod["metadata"]["creationTimestamp"])
    status = pod["status"]
    ended = terminated(container_status(status))
    if ended is not None:
        state, faults, shape = _result(ended, last_exit(container_status(status)) or "")
        return CheckSeen(revision, state, faults, shape, started_at)
    if status.get("phase") == "Failed":
        return _without_result(revision, status, started_at)
    reason, message = waiting(pod)
    faults = () if reason is None else (f"the check does not run: {reason}: {message or 'no more is known'}",)
    if reason in CANNOT_RUN_ONCE and now - started_at > START_SECONDS:
        return CheckSeen(revision, CheckState.FAILED, faults, None, started_at)
    return CheckSeen(revision, CheckState.RUNNING, faults, None, started_at)


def _without_result(revision: str, status: Mapping[str, object], started_at: float) -> CheckSeen:
    """Says whether the node or the deadline ended the pod before its container could say anything."""
    reason = status.get("reason")
    if reason == "DeadlineExceeded":
        fault = "the check did not end in time; importing the topology must not wait for anything"
        return CheckSeen(revision, CheckState.FAILED, (fault,), None, started_at)
    # A full or lost node is no fault of the revision: it is checked again.
    return CheckSeen(revision, CheckState.ABSENT, (), None, started_at)


def _result(ended: Mapping[str, object], told: str) -> tuple[CheckState, tuple[str, ...], TopologyShape | None]:
    try:
        message = decoded(str(ended.get("message") or ""), _Message)
        shape = message.shape if message.shape_gz is None else _unpack(message.shape_gz)
    except (ValueError, RecursionError, binascii.Error, zlib.error):
        fault = f"the check ended without a result ({told}); is spec.image an image of the streamsapp runtime?"
        return CheckState.FAILED, (fault,), None
    faults = tuple(fault[:_MAX_FAULT] for fault in message.faults[:_MAX_FAULTS])
    if faults or ended.get("exitCode") != 0 or shape is None:
        return CheckState.FAILED, faults or (f"the check failed: {told}",), None
    return CheckState.PASSED, (), TopologyShape(shape.sources, shape.stores)


def _unpack(text: str) -> _Shape:
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    packed = base64.b64decode(text, validate=True)
    content = unpacker.decompress(packed, _MAX_SHAPE_BYTES)
    if not unpacker.eof:
        raise ValueError("larger than it may be, or cut off")
    return decoded(content, _Shape)
