"""``streamsapp new``: writes the folder of an application, with a test that passes. Runs on the main thread."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from importlib.metadata import distribution
from importlib.resources import as_file, files
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from streamsapp.cli.arguments import new_command
from streamsapp.cli.output import add_output, print_json
from streamsapp.errors import UserInputError
from streamsapp.manifest.application_name import name_fault

TEMPLATES = {
    "word-count": "words of lines, counted",
    "windows": "counts minute by minute",
    "joins": "a stream that is joined with a table",
    "declared": "word count without Python, in the manifest",
}
#: The files that every project has.
_EVERY = "every"
_NAME = "__NAME__"
_LIBRARY = "__STREAMSAPP__"
#: Under these names, packages and git would take the files for their own.
_RENAMED = {"gitignore": ".gitignore"}
_GO_ON = """\
go on with:
  cd {folder}
  streamsapp local -f app.yaml --watch
its test, without a broker:
  pip install -r requirements.txt && pytest"""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "\n".join(f"  {name:<11} {text}" for name, text in TEMPLATES.items())
    parser = new_command(
        commands,
        "new",
        "write a project to begin with",
        f"It writes a folder with a manifest, a topology, and a test of it that passes. The templates are:\n{about}",
        "  streamsapp new hello\n  streamsapp new clicks --template windows",
    )
    parser.add_argument("name", metavar="NAME", help="the name of the application, and of the folder")
    parser.add_argument(
        "--template", choices=tuple(TEMPLATES), default="word-count", metavar="NAME", help="default: word-count"
    )
    add_output(parser)
    parser.set_defaults(run=new)


def new(options: argparse.Namespace) -> int:
    folder = Path(options.name)
    _check_name(folder.name)
    if os.path.exists(folder):  # noqa: PTH110  # that of Path raises where one may not look
        raise UserInputError(f"{options.name}: is there already; choose another name, or remove it")
    installed = distribution("streamsapp")
    library = requirement(installed.version, installed.read_text("direct_url.json"))
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "project"
        made.mkdir()
        with as_file(files("streamsapp.cli") / "templates") as templates:
            for source in sorted([*(templates / _EVERY).iterdir(), *(templates / options.template).glob("*.*")]):
                text = source.read_text("utf-8").replace(_NAME, folder.name).replace(_LIBRARY, library)
                (made / _RENAMED.get(source.name, source.name)).write_text(text, encoding="utf-8")
        try:
            shutil.copytree(made, folder)
        except OSError as error:
            raise UserInputError(f"{options.name}: cannot be written: {error.strerror}") from error
    written = sorted(each.name for each in folder.iterdir())
    if options.output == "json":
        print_json({"folder": str(folder), "template": options.template, "files": written})
        return 0
    print(f"{folder}: {', '.join(written)}")
    print(_GO_ON.format(folder=folder))
    return 0


def requirement(version: str, direct_url: str | None) -> str:
    """Returns the line by which pip finds this library again: at the address that it was installed from, such as a
    wheel's file, which pip keeps in ``direct_url`` (PEP 610); on an index where there is none."""
    if direct_url is None:
        return f"streamsapp=={version}"
    origin = json.loads(direct_url)
    if origin.get("dir_info", {}).get("editable"):
        return f"-e {url2pathname(urlsplit(origin['url']).path)}"
    return f"streamsapp @ {origin['url']}"


def _check_name(name: str) -> None:
    """Raises ``UserInputError`` for a name that no application on a cluster may have."""
    fault = name_fault(name)
    if fault is not None:
        raise UserInputError(f"{name}: {fault}")
