"""The names that an application, and the objects it refers to, may have. Pure; called where a manifest is checked."""

from __future__ import annotations

import re

from streamsapp.declared.faults import shown

#: The StatefulSet's controller labels pods with its name, a dash and up to ten characters, and a label has 63.
LONGEST = 52
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_OBJECT = 253
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def name_fault(name: object, *, longest: int = LONGEST, of: str = "pods and services") -> str | None:
    """Returns why no cluster would take this as ``metadata.name``; ``None`` if it may."""
    if isinstance(name, str) and len(name) <= longest and _NAME.fullmatch(name):
        return None
    return (
        f"{shown(name)} becomes part of the names of {of}: expected at most {longest} small letters, digits and '-', "
        "a letter first and no '-' last; choose another name"
    )


def object_name_fault(name: object) -> str | None:
    """Returns why no ConfigMap or Secret has this name; ``None`` if one may."""
    if isinstance(name, str) and len(name) <= _LONGEST_OBJECT and all(map(_LABEL.fullmatch, name.split("."))):
        return None
    return (
        f"expected the name of an object of the same namespace: at most {_LONGEST_OBJECT} small letters, digits, '-' "
        f"and '.', each part with a letter or digit first and last; got {shown(name)}"
    )
