"""Hooks of MkDocs: docstrings name classes and methods in Sphinx's way, and the site shows them as code; and the search
finds what one does before why it was decided.

Called by ``make docs`` for each page, in the process that builds the site.
"""

from __future__ import annotations

import re
from typing import Any

#: The weights of pages in the search, by how their addresses begin; of several the first. Others have 1. A word in a
#: heading counts a thousand times, so that a page which comes last weighs less than a thousandth.
_WEIGHTS = (
    (("guide.md", "tutorial.md", "index.md"), 4.0),
    (("decisions/", "benchmarks"), 0.0001),
    (("architecture.md", "departures.md", "soak.md"), 0.5),
)

_ROLE = re.compile(r":(?:class|meth|func|attr|data|exc|mod):<code>[~.]?([\w.]+)</code>")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Gives the page its weight in the search, and returns its text as it is."""
    weight = next((weight for begin, weight in _WEIGHTS if page.file.src_uri.startswith(begin)), 1.0)
    page.meta.setdefault("search", {})["boost"] = weight
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Returns the page, with the last part of each name that a role holds."""
    return _ROLE.sub(lambda role: f"<code>{role[1].rpartition('.')[2]}</code>", html)
