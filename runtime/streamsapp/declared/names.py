"""Checks the names in steps, of stores and of nodes: some must be there, and none may be there twice. Pure; called
wherever a manifest is checked."""

from __future__ import annotations

from collections.abc import Iterator

from streamsapp.declared.faults import did_you_mean
from streamsapp.declared.operations import Step

#: Their name is that of a topic; the nodes in front of it have names of their own.
_NAME_TOPICS = frozenset({"groupByKey", "repartition"})
_GLOBAL = frozenset({"globalTable", "addGlobalStore"})


class StepNames:
    """The names of stores and nodes in the steps so far."""

    def __init__(self) -> None:
        self._stores: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._global: set[str] = set()

    def faults_of(self, step: Step) -> Iterator[str]:
        """Returns the faults in the names of one more step."""
        name = getattr(step.options, "name", None)
        if name is not None and step.name not in _NAME_TOPICS:
            yield from _faults_of_new(self._nodes, "node", name, f"{step.path}.name")
        for path, store in _stores_of(step):
            yield from _faults_of_new(self._stores, "store", store, path)
            if step.name in _GLOBAL:
                self._global.add(store)
        for index, used in enumerate(getattr(step.options, "stores", None) or ()):
            yield from self._faults_of_used(used, f"{step.path}.stores[{index}]")

    def assume_store(self, name: str) -> None:
        """A step with faults may well have a store of that name."""
        self._stores.setdefault(name, "")

    def _faults_of_used(self, store: str, path: str) -> Iterator[str]:
        if store in self._global:
            yield f"{path}: {store!r} is a global store, open to every processor; leave it out"
        elif store not in self._stores:
            hint = did_you_mean(store, self._stores, "stores so far")
            yield f"{path}: no earlier step has a store {store!r}{hint or '; add it first, with addStateStore'}"


def _stores_of(step: Step) -> Iterator[tuple[str, str]]:
    """Path and name of each store that a step makes."""
    options = step.options
    sides = {f"{step.path}.{side}Store": getattr(options, f"{side}_store", None) for side in ("this", "other")}
    for path, given in {step.path: options, **sides}.items():
        store = getattr(given, "store", None)
        if store is not None:
            yield f"{path}.store", store


def _faults_of_new(known: dict[str, str], what: str, name: str, path: str) -> Iterator[str]:
    first = known.setdefault(name, path)
    if first != path:
        yield f"{path}: {name!r} is the name of another {what} ({first}); choose another"
