"""Does what ``plan`` decided. The only part of the operator that changes the cluster, but for the status.

Called on the thread of the application's loop.
"""

from streamsapp_operator.apply.actor import FINALIZER, ActionContext, Actor, set_finalizer
from streamsapp_operator.apply.children import ChildWriter, NameTakenError

__all__ = ["FINALIZER", "ActionContext", "Actor", "ChildWriter", "NameTakenError", "set_finalizer"]
