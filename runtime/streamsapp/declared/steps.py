"""Reads ``spec.topology.steps``: which operation each step is, on what, and what is wrong with it.

Called when a manifest is decoded (for the faults) and before the topology is built (for the steps). The steps before a
step decide what it works on, so faults that Python would show by a missing method are reported here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamsapp.declared.faults import MAX_FAULTS, did_you_mean, faults_of, shown
from streamsapp.declared.names import StepNames
from streamsapp.declared.operations import OPERATIONS, WAY_TO, Kind, Operation, Step, kinds_of
from streamsapp.structs import converted

_BUILDER = OPERATIONS[Kind.BUILDER]


@dataclass(frozen=True)
class _Written:
    """A step as it is written, taken apart."""

    operation: str
    options: Any
    of: Any
    result: Any


@dataclass(frozen=True)
class _Source:
    """The source of a step. Its kind is ``None`` after a fault: whatever follows may be right."""

    name: str
    kind: Kind | None


class DeclaredSteps:
    """The steps that are right, and the faults of the others."""

    def __init__(self, steps: list[Any], path: str) -> None:
        self.steps: list[Step] = []
        self.faults: list[str] = []
        self._names = StepNames()
        self._named: dict[str, Kind | None] = {}
        self._current: _Source | None = None
        self._why_nothing = "nothing was read yet; begin with stream or table"
        for index, item in enumerate(steps):
            if len(self.faults) >= MAX_FAULTS:  # no more are reported, and a near name is costly to find
                break
            # No name of a user has this sign.
            self._read(item, f"{path}[{index}]", f"#{index}")
        if not self.faults and not any(step.reads for step in self.steps):
            self._tell(path, "reads nothing; begin with stream or table")

    def _tell(self, path: str, fault: str) -> None:
        self.faults.append(f"{path}: {fault}")

    def _read(self, item: object, path: str, number: str) -> None:
        told = len(self.faults)
        written = self._taken_apart(item, path)
        if written is None:
            self._current = _Source(number, None)
            self._let_pass(item)
            return
        source = self._source(written, path, number)
        path = f"{path}.{written.operation}"
        operation = self._operation(written.operation, source.kind, path)
        if operation is not None:
            operation = operation.chosen(written.options, self._kind_of_other(written.options))
        options = None if operation is None else self._options(written.options, operation, path)
        gives = self._result(written, operation, path, number)
        if operation is not None and options is not None:
            step = Step(path, written.operation, operation, options, source.name, gives)
            self.faults += self._names.faults_of(step)
            self._name_others(step)
            if len(self.faults) == told:
                self.steps.append(step)
        else:
            self._let_pass(item)

    def _let_pass(self, item: object) -> None:
        """Notes the name that a step with faults would have given, so that later steps do not miss it."""
        for name in (*_texts_under("as", item), *_texts_under("lateAs", item)):
            self._named.setdefault(name, None)
        for store in _texts_under("store", item):
            self._names.assume_store(store)

    # ---- the step itself ---------------------------------------------------------------------------------------

    def _taken_apart(self, item: object, path: str) -> _Written | None:
        """A mapping with one operation, and perhaps ``from`` and ``as``; a text is an operation without options."""
        if isinstance(item, str):
            item = {item: None}
        if not isinstance(item, dict):
            self._tell(path, f"expected a mapping with one operation, got {shown(item)}")
            return None
        item = {str(key): value for key, value in item.items()}
        keys = [key for key in item if key not in ("from", "as")]
        known = [key for key in keys if kinds_of(key)]
        if len(known) == 1:
            for key in keys:
                if key != known[0]:
                    self._tell(f"{path}.{key}", f"unknown field{did_you_mean(key, ['from', 'as'], 'known beside it')}")
            keys = known
        if len(keys) != 1:
            self._tell(path, f"expected one operation, got {' and '.join(keys) or 'none'}")
            return None
        return _Written(keys[0], item[keys[0]], item.get("from"), item.get("as"))

    def _source(self, written: _Written, path: str, number: str) -> _Source:
        if written.operation in _BUILDER:
            if written.of is not None:
                self._tell(f"{path}.from", f"{written.operation} reads its own topic; leave from out")
            return _Source("", Kind.BUILDER)
        if written.of is not None:
            return _Source(str(written.of), self._kind_of(written.of, f"{path}.from"))
        if self._current is None:
            self._tell(f"{path}.{written.operation}", f"there is nothing to continue from: {self._why_nothing}")
            return _Source(number, None)
        return self._current

    def _kind_of(self, name: object, path: str) -> Kind | None:
        """Returns the kind of the result that an earlier step gave under a name."""
        if isinstance(name, str) and name in self._named:
            return self._named[name]
        known = list(self._named)
        hint = did_you_mean(name, known, "named so far") if isinstance(name, str) else ""
        self._tell(path, f"no earlier step gives {shown(name)}{hint or '; name what a step gives with as'}")
        return None

    def _operation(self, name: str, kind: Kind | None, path: str) -> Operation | None:
        """The operation of that name on that kind. After a fault it is the only one of that name, if it is."""
        if kind is not None and name in OPERATIONS[kind]:
            return OPERATIONS[kind][name]
        others = kinds_of(name)
        if not others:
            known = OPERATIONS[kind] if kind else [each for of_kind in OPERATIONS.values() for each in of_kind]
            self._tell(path, f"there is no such operation{did_you_mean(name, known, 'operations')}")
        elif kind is not None:
            self._tell(path, f"{kind.value} has no {name}, {others[0].value} has; {WAY_TO[others[0]]}")
        elif len(others) == 1:
            return OPERATIONS[others[0]][name]
        return None

    # ---- its options -------------------------------------------------------------------------------------------

    def _options(self, given: Any, operation: Operation, path: str) -> Any | None:
        """The options as the operation's structure; ``None`` after a fault."""
        options = _as_mapping(given, operation)
        faults = list(_options_faults(options, operation, path))
        self.faults += faults
        return None if faults else converted(options, operation.structure)

    def _name_others(self, step: Step) -> None:
        """Names of other streams in the options: streams to merge with, streams of branches."""
        other = getattr(step.options, "with", None)
        if other is not None:
            kind = self._kind_of(other, f"{step.path}.with")
            wanted = step.operation.others
            if kind is not None and kind not in wanted:
                self._tell(f"{step.path}.with", f"{other!r} is {kind.value}; {WAY_TO[wanted[0]]}")
        late = getattr(step.options, "late_as", None)
        if late is not None:
            self._name(late, Kind.STREAM, f"{step.path}.lateAs")
        for path, branch in step.branches():
            if branch.result is not None:
                self._name(branch.result, Kind.STREAM, f"{path}.as")

    def _kind_of_other(self, options: object) -> Kind | None:
        """Returns the kind that the options' ``with`` names, if it names any."""
        other = options.get("with") if isinstance(options, dict) else None
        return self._named.get(other) if isinstance(other, str) else None

    # ---- what it gives -----------------------------------------------------------------------------------------

    def _result(self, written: _Written, operation: Operation | None, path: str, number: str) -> str:
        """The name of what the step gives; the next step continues from it."""
        kind = None if operation is None else operation.gives_for(written.options)
        if written.result is not None:
            at = f"{path.rpartition('.')[0]}.as"
            if operation is not None and kind is None:
                self._tell(at, f"{written.operation} gives nothing to be named; leave as out")
            else:
                self._name(written.result, kind, at)
        if operation is None or kind not in (None, Kind.GLOBAL_TABLE):
            self._current = _Source(number if written.result is None else str(written.result), kind)
        elif written.operation not in _BUILDER:
            self._current = None
            self._why_nothing = (
                "split gives branches; name them with as, and continue from one with from"
                if written.operation == "split"
                else f"{written.operation} ends a stream; name what comes before it with as, and continue with from"
            )
        return number if written.result is None else str(written.result)

    def _name(self, name: object, kind: Kind | None, path: str) -> None:
        if not isinstance(name, str) or not name or name.startswith("#"):
            self._tell(path, f"expected a name, got {shown(name)}")
        elif name in self._named:
            self._tell(path, f"{name!r} is the name of an earlier step; choose another")
        else:
            self._named[name] = kind


def _texts_under(key: str, item: object) -> Iterator[str]:
    """The texts that a step has under a key, however deep."""
    if isinstance(item, dict):
        for name, value in item.items():
            if isinstance(value, str) and name == key:
                yield value
            yield from _texts_under(key, value)
    elif isinstance(item, list):
        for each in item:
            yield from _texts_under(key, each)


def _as_mapping(given: Any, operation: Operation) -> Any:
    """Options in full: a value that is written alone is that of the first field."""
    first = operation.first
    if given is None:
        return {}
    if first is not None and (not isinstance(given, dict) or operation.is_reference(given)):
        return {first: given}
    return given


def _options_faults(options: Any, operation: Operation, path: str) -> Iterator[str]:
    if isinstance(options, dict):
        for key in ("from", "as"):
            if key in options:
                yield f"{path}.{key}: write it beside {path.rpartition('.')[2]}, not below"
        options = {key: value for key, value in options.items() if key not in ("from", "as")}
        given = [name for name in operation.one_of_names if options.get(name) is not None]
        if operation.one_of and len(given) != 1:
            expected = ", ".join(operation.one_of_names)
            yield f"{path}: expected exactly one of {expected}, got {' and '.join(given) or 'none'}"
    yield from faults_of(options, operation.structure, path)
