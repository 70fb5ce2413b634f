"""The scheduling of sub-topologies, as an application asks for it: which goes first, which share each has, and what
becomes of one that fails.

Made by the user or of the manifest, before an instance starts; ``topology.scheduling`` finds the sub-topologies. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamsapp.errors import ConfigError

LATENCY, BULK = "latency", "bulk"
CLASSES = (LATENCY, BULK)
#: The uncaught exception handler decides, or the sub-topology is set aside.
HANDLER, PAUSE = "handler", "pause"
ON_FAILURE = (HANDLER, PAUSE)
#: The greatest share of a sub-topology beside one of weight 1.
MOST_WEIGHT = 1000


@dataclass(frozen=True, kw_only=True)
class Scheduling:
    """The scheduling of one sub-topology, which is named by its number (``sub_topology``, as ``Topology.describe``
    shows it) or by a topic that it reads (``source``).

    ``scheduling_class`` is ``"latency"`` for a sub-topology that goes before those of class ``"bulk"``. Without one a
    sub-topology is bulk if another is said to be of class latency, and of class latency otherwise; so is any
    without an entry. Sub-topologies of one class share the processing threads by their ``weight``, 1 to 1000.

    With ``on_failure="pause"`` a sub-topology that fails again and again, or hangs, is set aside while the others go
    on. By default, ``"handler"``, the uncaught exception handler decides. Raises ``ConfigError``.
    """

    sub_topology: int | str | None = None
    source: str | None = None
    weight: int = 1
    scheduling_class: str | None = None
    on_failure: str = HANDLER

    def __post_init__(self) -> None:
        if (self.sub_topology is None) == (self.source is None):
            raise ConfigError("scheduling: give an entry either sub_topology or source")
        if isinstance(self.weight, bool) or not isinstance(self.weight, int) or not 1 <= self.weight <= MOST_WEIGHT:
            raise ConfigError(
                f"scheduling: weight: expected an integer from 1 to {MOST_WEIGHT}, got {self.weight!r:.100}"
            )
        if self.scheduling_class not in (None, *CLASSES):
            raise ConfigError(
                f"scheduling: scheduling_class: expected {_either(CLASSES)}, got {self.scheduling_class!r:.100}"
            )
        if self.on_failure not in ON_FAILURE:
            raise ConfigError(f"scheduling: on_failure: expected {_either(ON_FAILURE)}, got {self.on_failure!r:.100}")

    @property
    def name(self) -> str:
        """The name that it gives of its sub-topology."""
        return str(self.source if self.sub_topology is None else self.sub_topology)


def check_scheduling(given: object) -> tuple[Scheduling, ...]:
    """Returns the entries of a configuration; raises ``ConfigError`` for anything else."""
    entries = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else None
    if entries is None or not all(isinstance(each, Scheduling) for each in entries):
        raise ConfigError(f"scheduling: expected a list of Scheduling(source=..., ...), got {given!r:.200}")
    return entries


def _either(choices: Sequence[str]) -> str:
    return " or ".join(map(repr, choices))
