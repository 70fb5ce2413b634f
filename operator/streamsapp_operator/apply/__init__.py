"""Does what ``plan`` decided. The only part of the operator that changes the cluster, but for the status.

Called on the thread of the application's loop.
"""

from streamsapp_operator.apply.actions import FINALIZER, Actor, Case, set_finalizer
from streamsapp_operator.apply.children import ChildWriter, NameTakenError

__all__ = ["FINALIZER", "Actor", "Case", "ChildWriter", "NameTakenError", "set_finalizer"]
