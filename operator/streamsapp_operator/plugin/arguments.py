"""Adds the arguments that the commands share. Runs on the main thread."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from streamsapp_operator.plugin.session import CommandSession

Run = Callable[[argparse.Namespace, CommandSession], int]


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    summary: str,
    details: str,
    run: Run,
    *,
    about_one: bool = True,
    actions: Sequence[str] = (),
) -> argparse.ArgumentParser:
    """Adds a command on one application; on all of them without its name, unless it is ``about_one``. One that has
    ``actions`` takes one of them before the name, as ``options.action``."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.\n\n{details}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if actions:
        parser.add_argument("action", choices=actions, help="what to do")
    parser.add_argument("name", metavar="NAME", nargs=None if about_one else "?", help="name of the StreamsApp")
    add_kubectl_options(parser)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="default: text")
    parser.set_defaults(run=run)
    return parser


def add_kubectl_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of kubectl that choose a cluster; kubectl does not hand them to plugins by itself."""
    group = parser.add_argument_group("cluster, as with kubectl")
    group.add_argument("-n", "--namespace", metavar="NAMESPACE", help="default: that of the kubeconfig's context")
    group.add_argument("--context", metavar="NAME", help="the context of the kubeconfig")
    group.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or ~/.kube/config")


def add_forwarded(
    parser: argparse.ArgumentParser,
    options: Mapping[str, str],
    *,
    flags: Collection[str] = (),
    exclusive: Collection[str] = (),
) -> None:
    """Adds options that a command of ``streamsapp`` in a pod is given as they are, with what they mean; ``flags`` have
    no value, and of ``exclusive`` one may be given."""
    group = parser.add_argument_group("as with streamsapp")
    only_one = group.add_mutually_exclusive_group()
    for option, meaning in options.items():
        into = only_one if option in exclusive else group
        if option in flags:
            into.add_argument(option, dest=_key(option), action="store_true", help=meaning)
        else:
            into.add_argument(option, dest=_key(option), metavar="VALUE", help=meaning)


def forwarded_arguments(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Returns those of the options that were given, as one word each."""
    given = {name: getattr(options, _key(name)) for name in names}
    return [name if value is True else f"{name}={value}" for name, value in given.items() if value not in (None, False)]


def _key(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
