"""The objects that an application is made of in the cluster, as the API server takes them. Pure builders.

Called by ``apply`` and by the handlers, on kopf's threads. ``revision_of`` turns a manifest into a revision, which pods
are made of, or reports every fault of it. ``recorded_revision`` gives an earlier revision back from its ConfigMap.
``render`` builds the children of either.
"""

from streamsapp_operator.children.names import Owner
from streamsapp_operator.children.render import Children, render
from streamsapp_operator.children.revision import Revision, recorded_revision, revision_of
from streamsapp_operator.children.settings import RenderSettings
from streamsapp_operator.children.user_code import code_files

__all__ = [
    "Children",
    "Owner",
    "RenderSettings",
    "Revision",
    "code_files",
    "recorded_revision",
    "render",
    "revision_of",
]
