"""The documentation as a site: every page is in the order, every public name in the reference, every link leads on."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

import streamsapp
from streamsapp import testing

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))


def listed(entries: Any) -> Iterator[str]:
    """Pages of the navigation, in its order."""
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from listed(entry)


def anchors(page: Path) -> set[str]:
    """The places of a page that a link can lead to, as Markdown's tools name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {re.sub(r"[-\s]+", "-", title) for title in plain}


def documented() -> list[str]:
    """Returns the names that the pages of the reference are made of."""
    return [name for page in PAGES for name in re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)]


def test_every_page_is_in_the_order_once() -> None:
    assert sorted(listed(SITE["nav"])) == [page.relative_to(DOCS).as_posix() for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_into_pages_lead_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", page.read_text("utf-8"))
    assert [link for link in links if link[1] not in anchors(page.parent / link[0] if link[0] else page)] == []


def test_links_stay_among_the_pages() -> None:
    targets = {page: re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")) for page in PAGES}
    known = {*PAGES, *(DOCS / "assets").glob("*.png"), *(DOCS / "assets").glob("*.svg")}
    away = [
        (page.name, to) for page, found in targets.items() for to in found if (page.parent / to).resolve() not in known
    ]
    assert away == []


def test_every_public_name_has_an_entry_in_the_reference() -> None:
    public = {*streamsapp.__all__, *(f"testing.{name}" for name in testing.__all__)}
    assert public <= {name.removeprefix("streamsapp.") for name in documented()}


def test_what_the_reference_shows_exists_and_has_a_docstring() -> None:
    for name in documented():
        module, _, attribute = name.rpartition(".")
        found = import_module(name) if name == "streamsapp.errors" else getattr(import_module(module), attribute)
        assert found.__doc__, name


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(["make", "docs", f"SITE={folder}"], cwd=ROOT, check=True)
    return folder


@pytest.mark.long
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {page.relative_to(site).as_posix(): page.read_text("utf-8") for page in site.rglob("*.html")}
    assert {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in PAGES} <= pages.keys()
    loaded = r"<(?:script|img|iframe)[^>]* src=.?https?:|<link[^>]* href=.?https?:[^>]*stylesheet"
    assert [name for name, text in pages.items() if re.search(loaded, text)] == []
    assert [name for name, text in pages.items() if ":class:" in text or ":meth:" in text] == []
    assert "group_by_key" in pages["api/dsl.html"]


def found(site: Path, profile: Path, query: str) -> list[str]:
    """The pages that the search shows for a query, best first, when the site's files are opened from a disk."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("there is no Chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    page = f"{(site / 'index.html').as_uri()}?q={quote(query)}"
    command = [browser, *options, "--virtual-time-budget=60000", "--dump-dom", page]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search(r"\d+ matching documents", shown)
    links = re.findall(r'<a href="([^"]+)" class="md-search-result__link"', shown)
    pages = [link.removeprefix(f"{site.as_uri()}/").partition("?")[0].partition("#")[0] for link in links]
    return list(dict.fromkeys(pages))


@pytest.mark.long
def test_the_search_finds_a_page_of_files_that_are_opened_from_a_disk(site: Path, tmp_path: Path) -> None:
    assert "architecture.html" in found(site, tmp_path, "rebalance")


@pytest.mark.long
@pytest.mark.parametrize("query", ["timestamp extractor", "late records"])
def test_the_search_finds_the_guide_first_and_decisions_last(site: Path, tmp_path: Path, query: str) -> None:
    pages = found(site, tmp_path, query)
    decisions = [each.startswith("decisions/") for each in pages]
    assert pages[0] == "guide.html"
    assert decisions == sorted(decisions), pages
