"""Writes the texts of the status that columns show: a column has one field. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from streamsapp_operator.model.status import AppStatus

#: The longest message of a column.
_LONGEST = 160
#: The conditions that have the message, the gravest first, each with the status that is no good.
_WRONG = (("Degraded", "True"), ("Stalled", "True"), ("Ready", "False"), ("UpToDate", "False"))


def with_short_forms(status: AppStatus) -> AppStatus:
    """Returns the status with its short forms."""
    rollout, wanted = status.rollout, status.target_replicas
    return replace(
        status,
        message=_message(status),
        pods="" if wanted is None else f"{status.ready_replicas}/{wanted}",
        rollout=None if rollout is None else replace(rollout, pods=f"{rollout.updated}/{rollout.total}"),
    )


def _message(status: AppStatus) -> str:
    """Returns what is wrong, or else what is going on."""
    told = {it.type: it for it in status.conditions}
    wrong = (told[kind] for kind, bad in _WRONG if kind in told and told[kind].status == bad)
    text = next((it.message or it.reason for it in wrong), "")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
