"""Observes one application: its objects in the cluster, and the report of each of its pods.

Called on the thread of the application's loop. Everything a pod says is untrusted: user code runs in it.
"""

from streamsapp_operator.observe.observer import AppObservation, Observer
from streamsapp_operator.observe.pod_status import PodAsker

__all__ = ["AppObservation", "Observer", "PodAsker"]
