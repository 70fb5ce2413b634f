"""Carries out the decisions of ``plan``. It is the only part of the operator that changes the cluster, but for the
status; and it has pods take members whose containers have ended out of their group.

Called on the thread of the application's loop.
"""

from streamsapp_operator.apply.action_runner import FINALIZER, ActionContext, ActionRunner, set_finalizer
from streamsapp_operator.apply.children import ChildWriter, NameTakenError
from streamsapp_operator.apply.ended_containers import EndedContainers

__all__ = [
    "FINALIZER",
    "ActionContext",
    "ActionRunner",
    "ChildWriter",
    "EndedContainers",
    "NameTakenError",
    "set_finalizer",
]
