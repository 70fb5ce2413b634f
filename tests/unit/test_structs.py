"""Threads that meet a structure for the first time, at the same time."""

from __future__ import annotations

import subprocess
import sys

#: Each round has structures of its own: only the first look at a structure is dangerous.
ROUNDS = """
import sys, threading
from msgspec import defstruct
from streamsapp.declared.faults import faults_of
from streamsapp.membership.member_messages import Message
from streamsapp.structs import converted, decoded

sys.setswitchinterval(1e-6)
for number in range(150):
    inner = [defstruct(f"Inner{n}", [(f"field{m}", int | None, None) for m in range(8)]) for n in range(8)]
    outer = defstruct("Outer", [(f"part{n}", part | None, None) for n, part in enumerate(inner)])
    message = defstruct("Sent", [("said", outer | None, None)], bases=(Message,), array_like=True, frozen=True)
    sent = message(outer(inner[7](1))).encode()
    together = threading.Barrier(8)

    def meet(look):
        together.wait()
        look()

    looks = [
        lambda: faults_of({"part7": {"field7": 1}}, outer),
        lambda: converted({"part7": {"field7": 1}}, outer),
        lambda: decoded('{"part7": {"field7": 1}}', outer),
        lambda: message.decode(sent),
    ]
    threads = [threading.Thread(target=meet, args=(look,)) for look in looks * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("all met")
"""


def test_threads_that_check_and_read_the_same_structure_first_do_not_crash_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", ROUNDS], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "all met\n"), done.stderr
