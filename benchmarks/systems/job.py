"""The words between the driver and a program under test: the job on the command line, marks on standard output.

Imported by ``run.py`` and by the Python programs; ``kafka_streams/`` has the same in Java. Standard library only, as
each system runs in an environment of its own.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Job:
    """One run of one program. ``records`` is what to count to before closing. The names are those of the JSON."""

    workload: str
    variant: str
    applicationId: str  # noqa: N815 - read by Java too
    bootstrapServers: str  # noqa: N815
    input: str
    output: str
    records: int
    stateDir: str  # noqa: N815
    #: The place where snapshots are kept; empty without.
    remoteState: dict[str, str]  # noqa: N815
    #: The second input topic; empty without.
    right: str = ""
    #: Time between two commits in milliseconds; 0 for the default of the guarantee.
    commitIntervalMs: int = 0  # noqa: N815
    #: Properties of a secured connection, by the system's own names; without any, clients connect to
    #: bootstrapServers.
    connection: dict[str, str] = field(default_factory=dict)
    #: The client that moves streamsapp's records.
    client: str = "streamsapp"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_command_line(cls) -> Job:
        return cls(**json.loads(sys.argv[1]))


def mark(name: str, count: int = 0) -> None:
    """Tell the driver that a point is reached; it takes this process' figures now."""
    print(f"@@ {name} {count}", flush=True)


def mark_closed(count: int) -> None:
    """The last mark: stay alive until the driver has taken the figures."""
    mark("CLOSED", count)
    sys.stdin.read()
