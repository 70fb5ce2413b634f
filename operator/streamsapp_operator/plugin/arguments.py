"""Adds the arguments that the commands share. Runs on the main thread."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from streamsapp_operator.plugin.session import CommandSession

Run = Callable[[argparse.Namespace, CommandSession], int]


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str, details: str, run: Run
) -> argparse.ArgumentParser:
    """Adds a command on one application."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{details}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", help="of the StreamsApp")
    add_kubectl_options(parser)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="default: text")
    parser.set_defaults(run=run)
    return parser


def add_kubectl_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of kubectl that choose a cluster; kubectl does not hand them to plugins by itself."""
    group = parser.add_argument_group("cluster, as with kubectl")
    group.add_argument("-n", "--namespace", metavar="NAMESPACE", help="default: that of the kubeconfig's context")
    group.add_argument("--context", metavar="NAME", help="of the kubeconfig")
    group.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or ~/.kube/config")
