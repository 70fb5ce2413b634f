"""The offsets from which tasks read their inputs: the committed ones, or without them the offsets by the reset policy.

Called on the polling thread, and where tasks are run in batches.
"""

from __future__ import annotations

import re

from streamsapp.clock import Clock
from streamsapp.errors import TopicError
from streamsapp.kafka.consumer import BEGINNING, END, PartitionConsumer
from streamsapp.record import TopicPartition
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_plan import TaskPlan

#: The reset policy of a source that names none.
DEFAULT_POLICY = "earliest"


class StartPositions:
    """Applies the sources' reset policies (KIP-1106)."""

    def __init__(self, consumer: PartitionConsumer, clock: Clock) -> None:
        self._consumer = consumer
        self._clock = clock

    def of(self, task: StreamTask) -> dict[TopicPartition, int]:
        """The next offset of each of a restored task's inputs."""
        known = task.start_offsets
        return {each: known[each].offset if each in known else self.reset(task.plan, each) for each in task.plan.inputs}

    def reset(self, plan: TaskPlan, partition: TopicPartition) -> int:
        """The position of a task's input without a committed offset. Raises ``TopicError`` if the policy forbids that,
        or is none."""
        source = plan.inputs[partition]
        policy = source.offset_reset or DEFAULT_POLICY
        if policy == "earliest":
            return BEGINNING
        if policy == "latest":
            return END
        if policy == "none":
            raise TopicError(
                f"source {source.name} has no committed offset for {partition} and offset_reset is 'none': "
                "commit one for the group, or choose earliest or latest"
            )
        since = self._clock.now_ms() - _iso_duration_ms(policy.partition(":")[2])
        return self._consumer.offsets_for_time([partition], since)[partition]


def _iso_duration_ms(text: str) -> int:
    """An ISO 8601 duration such as ``PT1H30M`` or ``P7D`` in milliseconds."""
    match = _ISO_DURATION.fullmatch(text)
    if match is None or text in ("P", "PT"):
        raise TopicError(f"offset_reset by_duration: {text!r} is not an ISO 8601 duration such as PT1H or P7D")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return int(1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days))))


_ISO_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
