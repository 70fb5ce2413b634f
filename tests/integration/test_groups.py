"""A group's offsets are asked for while the broker does not know the group yet: see ``streamsapp.kafka.groups``."""

from __future__ import annotations

import subprocess
import sys

from streamsapp.local.broker import EmbeddedBroker

PROGRAM = """
import sys
from streamsapp import StreamsConfig
from streamsapp.kafka.groups import GroupAdmin

for number in range(10):
    group = GroupAdmin(StreamsConfig(application_id=f"new-{number}", bootstrap_servers=sys.argv[1]))
    assert group.committed() == {}
"""


def test_offsets_of_groups_that_a_new_broker_has_never_heard_of_are_none(own_broker: EmbeddedBroker) -> None:
    command = [sys.executable, "-c", PROGRAM, own_broker.bootstrap_servers]
    programs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    told = [program.communicate(timeout=100)[1] for program in programs]

    assert [program.returncode for program in programs] == [0] * 4, told
