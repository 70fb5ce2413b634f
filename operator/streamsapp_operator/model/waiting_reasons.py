"""The kubelet's reasons for containers that do not start. Plain data, read by the observer and by the plan."""

from __future__ import annotations

#: Waiting does not mend these, once they have lasted for :data:`START_SECONDS`.
CANNOT_START = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
    }
)
#: For a pod that is never started again: its first failure to run is its last.
CANNOT_RUN_ONCE = CANNOT_START | {"RunContainerError"}
#: The seconds for which a pod may fail to start for a reason that could go away by itself.
START_SECONDS = 30.0
