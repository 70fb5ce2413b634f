"""``streamsapp pause`` and ``streamsapp resume``: a sub-topology of a running application stops, and goes on, while the
others do. Runs on the main thread."""

from __future__ import annotations

import argparse
from functools import partial
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlencode

import orjson

from streamsapp.cli.arguments import new_command
from streamsapp.cli.output import add_output, print_json
from streamsapp.errors import StreamsError, UserInputError
from streamsapp.manifest.mounts import HTTP_TOKEN_FILE
from streamsapp.query.remote_reader import Fetch, HttpFetch
from streamsapp.web.endpoint import is_endpoint

_PORT = "localhost:8080"
_DETAILS = """\
NAME is the number of the sub-topology, as `streamsapp describe` shows it, or a topic that it reads. The command asks
the instances at their HTTP ports: name the port of each process with --instance. {} It is not kept: an
instance that starts again processes all its sub-topologies."""


def add_pause(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add(
        commands,
        "pause",
        "have a sub-topology stop while the others go on",
        "What it has processed is committed, and its stores can be queried.",
    )


def add_resume(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add(
        commands,
        "resume",
        "have a sub-topology go on that was paused or set aside",
        "It goes on from its last commit.",
    )


def _add(commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str, details: str) -> None:
    parser = new_command(
        commands,
        name,
        summary,
        _DETAILS.format(details),
        f"  streamsapp {name} --sub-topology 1\n"
        f"  streamsapp {name} --sub-topology orders --instance localhost:8080 --instance localhost:8081\n"
        f"  kubectl exec wordcount-0 -- streamsapp {name} --sub-topology orders",
    )
    parser.add_argument("--sub-topology", required=True, metavar="NAME", help="its number, or a topic that it reads")
    parser.add_argument(
        "--instance",
        action="append",
        metavar="HOST:PORT",
        help=f"the HTTP port of an instance or a pod; may be repeated; default: {_PORT}",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        default=HTTP_TOKEN_FILE,
        metavar="FILE",
        help="the file with the token that the port asks for; default: the one that a pod has",
    )
    add_output(parser)
    parser.set_defaults(run=partial(_ask_all, name))


def _ask_all(command: str, options: argparse.Namespace) -> int:
    endpoints = options.instance or [_PORT]
    for each in endpoints:
        if not is_endpoint(each):
            raise UserInputError(f"--instance: expected host:port, got {each!r:.100}")
    fetch = HttpFetch(options.token_file)
    name, paused = options.sub_topology, command == "pause"
    for each in endpoints:
        _ask(fetch, each, command, name)
        if options.output == "text":
            print(f"{each}: sub-topology {name} {'is paused' if paused else 'goes on'}")
    if options.output == "json":
        print_json({"subTopology": name, "paused": paused, "instances": endpoints})
    return 0


def _ask(fetch: Fetch, endpoint: str, command: str, name: str) -> None:
    try:
        reply = fetch(endpoint, f"/{command}?{urlencode({'subTopology': name})}", method="POST")
    except (OSError, HTTPException) as error:
        raise StreamsError(f"{endpoint}: no instance answers: {error}; name its HTTP port with --instance") from error
    if reply.status == HTTPStatus.OK:
        return
    try:
        told = str(orjson.loads(reply.body)["error"])
    except (ValueError, KeyError, TypeError):
        told = f"HTTP status {reply.status}"
    if reply.status == HTTPStatus.BAD_REQUEST:
        raise UserInputError(f"--sub-topology: {told}")
    raise StreamsError(f"{endpoint}: {told}")
