"""A hook of MkDocs: docstrings name classes and methods in Sphinx's way, and the site shows them as code.

Called by ``make docs`` for each page, in the process that builds the site.
"""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":(?:class|meth|func|attr|data|exc|mod):<code>[~.]?([\w.]+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """Returns the page, with the last part of each name that a role holds."""
    return _ROLE.sub(lambda role: f"<code>{role[1].rpartition('.')[2]}</code>", html)
