"""Builds the topology of ``spec.topology.steps``, by the same calls that a program in Python makes.

Called by the command line, on the thread that builds the topology.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from streamsapp.config.topology_optimization import NONE
from streamsapp.declared.operations import DeclaredDefaultBranch, Step
from streamsapp.declared.resolve import Code, built, resolve
from streamsapp.declared.steps import DeclaredSteps
from streamsapp.dsl.builder import StreamsBuilder
from streamsapp.dsl.late import Late
from streamsapp.dsl.options import Branched
from streamsapp.dsl.windows import EmitStrategy
from streamsapp.errors import ManifestError, TopologyError
from streamsapp.topology.builder import Topology


def build_steps(steps: list[Any], path: str, code: Code, *, optimize: str = NONE) -> Topology:
    """The topology; a ``ManifestError`` lists the faults."""
    declared = DeclaredSteps(steps, path)
    if declared.faults:
        raise ManifestError(declared.faults)
    program = _Program()
    options = resolve({step.path: step.options for step in declared.steps}, code)
    for step, resolved in zip(declared.steps, options, strict=True):
        built(partial(program.add, step, resolved), step.path, code)
    return built(partial(program.builder.build, optimize=optimize), path, code)


_EMIT_STRATEGIES = {
    "onWindowUpdate": EmitStrategy.on_window_update(),
    "onWindowClose": EmitStrategy.on_window_close(),
}


class _Program:
    """Makes the calls of the DSL, one for each step."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self._made: dict[str, Any] = {}

    def add(self, step: Step, options: Any) -> None:
        target = self._target(step)
        if step.name == "split":
            self._split(target, options)
            return
        fields = {name: getattr(options, name) for name in step.operation.written}
        given = {name: value for name, value in fields.items() if value is not None}
        keywords: dict[str, Any] = {}
        for group in step.operation.options:
            keywords |= group.made(given)
        self._take_late(keywords)
        positional, arguments = self._arguments(step, given)
        method = getattr(target, _snake_case(step.name))
        if (emit := arguments.pop("emit_strategy", None)) is not None:
            self._made[step.gives] = method(**keywords).emit_strategy(_EMIT_STRATEGIES[emit])
        else:
            self._made[step.gives] = method(*positional, **arguments, **keywords)

    def _target(self, step: Step) -> Any:
        """Returns the object that a step works on."""
        if step.of and step.of not in self._made:
            raise TopologyError(
                f"{step.of!r} has the late records of windows, which the aggregation of the windows gives; write this "
                "step behind it"
            )
        return self._made[step.of] if step.of else self.builder

    def _take_late(self, keywords: dict[str, Any]) -> None:
        """Makes one argument of the topic, or of the name, of late records."""
        topic, name = keywords.get("late"), keywords.pop("late_as", None)
        if topic is not None and name is not None:
            raise TopologyError("late and lateAs: give one of them")
        if topic is not None:
            keywords["late"] = Late(topic)
        elif name is not None:
            keywords["late"] = Late(partial(self._keep_late, name))

    def _keep_late(self, name: str, stream: Any) -> None:
        if name in self._made:
            raise TopologyError(
                f"lateAs: {name!r} would have the late records of two operators; write the windows again, with another "
                "name, for the second, or give late a topic for both"
            )
        self._made[name] = stream

    def _arguments(self, step: Step, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of the method that are not in its groups of options."""
        operation = step.operation
        in_groups = {name for group in operation.options for name in group.fields}
        arguments = {name: given[name] for name in operation.arguments if name in given and name not in in_groups}
        if operation.one_of_as:
            ((name, value),) = arguments.items()
            return [], {operation.one_of_as: re.compile(value) if name == "pattern" else value}
        if "with" in operation.arguments:
            return [self._made[arguments.pop("with")]], arguments
        if "stores" in operation.arguments:
            return [arguments["supplier"], *arguments.get("stores", ())], {}
        return [], arguments

    def _split(self, stream: Any, options: Any) -> None:
        split = stream.split(options.name)
        for branch in (*options.branches, *([options.default] if options.default else [])):
            branched: Branched[Any, Any] = Branched(branch.name, consumer=partial(self._keep, branch.result))
            if isinstance(branch, DeclaredDefaultBranch):
                split.default_branch(branched)
            else:
                split.branch(branch.predicate, branched)

    def _keep(self, name: str | None, branch: Any) -> None:
        if name is not None:
            self._made[name] = branch


def _snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
