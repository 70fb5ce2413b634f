"""The layouts of an instance over time: topics that match the program's patterns come and go.

The topics' thread looks for them and puts what it found here; the membership's thread leads by that, and follows what
the leader found; the polling thread makes the tasks. Each layout is a value of its own: they are replaced, not changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from streamsapp.config.client_properties import metadata_max_age
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import TopicError, TopologyError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.membership.api import GroupTasks, MatchedTopics
from streamsapp.runtime.application_layout import ApplicationLayout, laid_out_again, match_patterns
from streamsapp.topology.builder import Topology
from streamsapp.topology.internal_topics import missing_topics

log = logging.getLogger(__name__)

#: Topics that an error names.
_NAMED = 5
#: The longest time between two looks at the topics, in seconds.
_PERIOD = 30.0


def topics_period(config: StreamsConfig) -> float:
    """Returns the time between two looks at the topics, in seconds."""
    return min(_PERIOD, metadata_max_age(config))


class Layouts:
    """The layout that this instance found last, and that of the group: implements ``membership.api.TaskCatalogue``."""

    def __init__(self, topology: Topology, config: StreamsConfig, first: ApplicationLayout) -> None:
        self._topology = topology
        self._config = config
        self._found = self._followed = first

    # ---- topics' thread ----------------------------------------------------------------------------------------

    def look(self, admin: TopicAdmin) -> None:
        """Compare the existing topics with the topics that the tasks are made from. Raises ``TopicError`` that names
        the topic where a source is gone or has other partitions, or where a topic that came cannot be read with the
        others. A broker out of reach is no evidence."""
        found = self._found
        try:
            existing = admin.partition_counts()
        except TopicError as error:
            log.warning("topics were not checked: %s", error)
            return
        change = found.changes(existing)
        if change is not None:
            raise TopicError(change)
        if not found.matched:
            return
        came: frozenset[str] = frozenset()
        try:
            came = match_patterns(self._topology, self._config, existing) - found.found_by_pattern
            again, needed = laid_out_again(self._topology, self._config, found, existing)
            missing = missing_topics(needed, existing)
            _refuse_moves(found, again)
        except (TopicError, TopologyError) as error:
            named = f" ({', '.join(sorted(came)[:_NAMED])})" if came else ""
            raise TopicError(
                f"topics came or went that match the patterns of the sources{named}: {error}; or delete the topic that "
                "came, or exclude it by the pattern"
            ) from error
        if again.matched == found.matched:
            return
        try:
            admin.create(missing, self._config.replication_factor)
        except TopicError as error:
            log.warning("topics that came are not read yet: %s", error)
            return
        log.info("topics that match the patterns: %s", _difference(found, again))
        self._found = again

    # ---- membership's thread -----------------------------------------------------------------------------------

    def found(self) -> GroupTasks:
        return self._found.group_tasks

    def decided(self, matched: Mapping[int, MatchedTopics]) -> GroupTasks:
        # The leader may have looked later than this instance, which may lead next: topics it has not seen are known
        # from here on, and what it has seen alone it sees again.
        layout = self.following(matched)
        self._found = layout
        return layout.group_tasks

    # ---- membership's and polling thread -----------------------------------------------------------------------

    def following(self, matched: Mapping[int, MatchedTopics]) -> ApplicationLayout:
        """The layout with the topics that the leader found, where it leads the same program."""
        for known in (self._found, self._followed):
            if known.agrees(matched):
                self._followed = known
                return known
        known = self._found
        followed, _ = laid_out_again(self._topology, self._config, known, known.with_topics(matched), matched)
        self._followed = followed
        return followed


def _refuse_moves(before: ApplicationLayout, after: ApplicationLayout) -> None:
    """A partition that went to another task while both run would be read by both for a while. Only a partition grouper
    of the user's own does that."""
    readers = {each: task_id for task_id, plan in before.plans.items() for each in plan.inputs}
    for task_id, plan in after.plans.items():
        for each in plan.inputs:
            if readers.get(each, task_id) != task_id:
                raise TopicError(
                    f"the partition grouper moves {each} from task {readers[each]} to {task_id}; stop all instances, "
                    "then start them again"
                )


def _difference(before: ApplicationLayout, after: ApplicationLayout) -> str:
    had, has = before.found_by_pattern, after.found_by_pattern
    told = [f"{topic} is read from now on" for topic in sorted(has - had)]
    told += [f"{topic} is gone" for topic in sorted(had - has)]
    return ", ".join(told) or "other partitions"
