"""The commands that the documentation shows: each is there, with the options that it is given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsapp.cli.completion import completed
from streamsapp.cli.main import make_parser
from streamsapp_operator.plugin.main import make_parser as make_plugin_parser

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = {
    program: {each.name: set(each.words) for each in completed(parser)}
    for program, parser in (("streamsapp", make_parser()), ("kubectl streamsapp", make_plugin_parser()))
}
TARGETS = set(re.findall(r"^([a-z][\w -]*):(?!=)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def shown(page: Path, program: str) -> Iterator[list[str]]:
    """The words behind a program's name, of each line of a block for a shell and of each piece of code in the text."""
    text = page.read_text("utf-8")
    lines = [
        line
        for block in re.findall(r"^```(?:sh)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    for line in [*lines, *re.findall(r"`([^`\n]+)`", text)]:
        found = re.search(rf"(?:^|\| |&& |\$ ){program} ([^|#&]*)", line)
        if found:
            yield found[1].replace("\\", " ").split()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_is_there_with_its_options(page: Path, program: str) -> None:
    commands = PROGRAMS[program]
    for names, *words in shown(page, program):
        if names.startswith(("-", "COMMAND")):
            continue
        options = {word.partition("=")[0].strip("[]") for word in words if word.lstrip("[").startswith("--")}
        for name in names.split("|"):
            assert name in commands, f"{program} {name}"
            assert options <= commands[name], f"{program} {name}"


@pytest.mark.parametrize(
    ("program", "page"), [("streamsapp", "cli.md"), ("kubectl streamsapp", "kubectl-plugin.md")], ids=["cli", "plugin"]
)
def test_every_command_is_on_the_page_of_its_program(program: str, page: str) -> None:
    named = set(re.findall(r"`(?:kubectl )?(?:streamsapp )?([a-z]+)[ `]", (ROOT / "docs" / page).read_text("utf-8")))
    assert PROGRAMS[program].keys() - {""} <= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_target_of_make_is_there(page: Path) -> None:
    targets = {target for line in TARGETS for target in line.split()}
    assert {words[0] for words in shown(page, "make")} <= targets
