"""Names that users give as members of enumerations are made text.

Called where names enter: by what builds a topology, on its thread, and where a sink's topic is chosen, on a processing
thread.
"""

from __future__ import annotations

from typing import Any


def plain_text(name: Any) -> Any:
    """Returns the text itself of a name that is a subclass of text, as a member of an enumeration is: that prints as
    something else, and code in C takes it for no name. Every other value stays as it is, to be refused."""
    return str.__str__(name) if isinstance(name, str) else name
