"""The members of the application's group that a container's processes are, as its termination message says it.

Written while the container runs, by the instance on its membership's thread or by the supervisor of several. When the
container has ended, however it ended, Kubernetes shows the message in the pod's status, and the operator knows which
members have no process any more: a message belongs to one run of one container. Processes that end in good order leave
the group, and take the message back.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from streamsapp.structs import decoded

#: Only Kubernetes makes this file.
NOTICE_FILE = Path("/dev/termination-log")
#: More members than a pod has instances, and more characters than a broker gives an id.
_MOST, LONGEST = 256, 300


class _Notice(Struct, frozen=True, forbid_unknown_fields=True):
    members: Annotated[list[Annotated[str, Meta(min_length=1, max_length=LONGEST)]], Meta(max_length=_MOST)]


def write_notice(members: Collection[str], file: Path = NOTICE_FILE) -> None:
    """Writes the message, or takes it back if there are no members. Does nothing where the file is not."""
    with suppress(OSError), os.fdopen(os.open(file, os.O_WRONLY | os.O_TRUNC), "wb") as notice:
        if members:
            notice.write(msgspec.json.encode(_Notice(sorted(members))))


def read_notice(message: str) -> tuple[str, ...] | None:
    """Returns the members that a termination message names; ``None`` if it is another message."""
    try:
        return tuple(decoded(message.encode(), _Notice).members)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
