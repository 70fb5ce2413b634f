"""``streamsapp completion``: a script by which a shell completes commands and options. Pure but for the printing."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from streamsapp.cli.arguments import new_command


@dataclass(frozen=True)
class Completed:
    """The words that can follow a command."""

    name: str
    summary: str
    #: Options, and the commands below it.
    words: tuple[str, ...]
    #: Of options that take one of a few values.
    choices: dict[str, tuple[str, ...]]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = new_command(
        commands,
        "completion",
        "print a script that completes commands in a shell",
        "Commands, options and their values are completed, and names of files where one is wanted.",
        "  streamsapp completion bash > ~/.local/share/bash-completion/completions/streamsapp\n"
        "  streamsapp completion zsh > ~/.zfunc/_streamsapp\n"
        "  streamsapp completion fish > ~/.config/fish/completions/streamsapp.fish",
    )
    parser.add_argument("shell", choices=tuple(_WRITERS))
    parser.set_defaults(run=completion)


def completion(options: argparse.Namespace) -> int:
    from streamsapp.cli.main import make_parser  # late: the command line has this command

    print(_WRITERS[options.shell](tuple(completed(make_parser()))), end="")
    return 0


def completed(parser: argparse.ArgumentParser) -> Iterator[Completed]:
    """The whole command line without a command, then each of its commands."""
    below = _commands(parser)
    yield _of("", "", parser)
    for name, command in below.items():
        nested = _commands(command)
        own = _of(name, (command.description or "").partition("\n")[0], command)
        of_nested = [_of(each, "", sub) for each, sub in nested.items()]
        words = [*own.words, *(word for each in of_nested for word in each.words)]
        choices = {option: values for each in (*of_nested, own) for option, values in each.choices.items()}
        yield Completed(name, own.summary, tuple(dict.fromkeys(words)), choices)


def _of(name: str, summary: str, parser: argparse.ArgumentParser) -> Completed:
    words = list(_commands(parser))
    choices: dict[str, tuple[str, ...]] = {}
    for action in parser._actions:
        words += action.option_strings
        if action.choices and not isinstance(action, argparse._SubParsersAction):
            values = tuple(str(each) for each in action.choices)
            choices |= dict.fromkeys(action.option_strings, values)
            words += [] if action.option_strings else values
    return Completed(name, summary, tuple(words), choices)


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


_BASH = """\
_streamsapp() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= word words=
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in {commands}) command=$word; break ;; esac
    done
    case "$command $previous" in
{choices}
    esac
    case $command in
{words}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ -n $command && $current != -* ]]; then
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _streamsapp streamsapp
"""


def _bash(commands: tuple[Completed, ...]) -> str:
    choices = [
        f'        "{each.name} {option}") COMPREPLY=($(compgen -W "{" ".join(values)}" -- "$current")); return ;;'
        for each in commands
        for option, values in each.choices.items()
    ]
    words = [f'        "{each.name}") words="{" ".join(each.words)}" ;;' for each in commands]
    names = "|".join(each.name for each in commands if each.name)
    return _BASH.format(commands=names, choices="\n".join(choices), words="\n".join(words))


def _zsh(commands: tuple[Completed, ...]) -> str:
    return f"#compdef streamsapp\nautoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: tuple[Completed, ...]) -> str:
    lines = []
    for each in commands:
        seen = f"__fish_seen_subcommand_from {each.name}" if each.name else "__fish_use_subcommand"
        if each.name:
            summary = shlex.quote(each.summary)
            lines.append(f"complete -c streamsapp -n __fish_use_subcommand -f -a {each.name} -d {summary}")
        for word in each.words:
            if not word.startswith("-"):
                lines += [f"complete -c streamsapp -n '{seen}' -a {word}"] if each.name else []
                continue
            option = f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
            values = f" -x -a '{' '.join(each.choices[word])}'" if word in each.choices else ""
            lines.append(f"complete -c streamsapp -n '{seen}' {option}{values}")
    return "\n".join(lines) + "\n"


_WRITERS: dict[str, Callable[[tuple[Completed, ...]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
