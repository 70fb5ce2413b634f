"""The names that an application may have. Pure; called wherever a manifest is checked."""

from __future__ import annotations

import re

from streamsapp.declared.faults import shown

#: The StatefulSet's controller labels pods with its name, a dash and up to ten characters, and a label has 63.
LONGEST = 52
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def name_fault(name: object, *, longest: int = LONGEST, of: str = "pods and services") -> str | None:
    """Returns why no cluster would take this as ``metadata.name``; ``None`` if it may."""
    if isinstance(name, str) and len(name) <= longest and _NAME.fullmatch(name):
        return None
    return (
        f"{shown(name)} becomes part of the names of {of}: expected at most {longest} small letters, digits and '-', "
        "a letter first and no '-' last; choose another name"
    )
