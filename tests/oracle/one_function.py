"""The operations of the DSL whose one argument is a predicate or a key selector, as manifests declare them.

Programs of this folder have them in Python, in Java (``OneFunction``) and as data, and random programs use them,
without a line for each. Called by the tests of this folder, on the test's thread.
"""

from __future__ import annotations

import re

from streamsapp.declared.operations import OPERATIONS, Kind, Operation
from streamsapp.declared.roles import KEY_SELECTOR, PREDICATE, Role, role_of

#: By the function's role, the table in ``functions``.
_TABLES = ((PREDICATE, "PREDICATES"), (KEY_SELECTOR, "KEY_SELECTORS"))
_KINDS = {"stream": Kind.STREAM, "table": Kind.TABLE}


def operations(kind: str, role: Role) -> list[str]:
    """Returns those on a ``stream`` or a ``table`` that give the same, by their names in Python."""
    same = _KINDS[kind]
    return sorted(_snake(name) for name, each in OPERATIONS[same].items() if each.gives is same and _role(each) is role)


def table_and_field(operation: str) -> tuple[str, str] | None:
    """Returns the table of its function, and the field of a declaration; ``None`` for any other operation."""
    for role, table in _TABLES:
        if any(operation in operations(kind, role) for kind in _KINDS):
            (field,) = OPERATIONS[Kind.STREAM][_camel(operation)].arguments
            return table, field
    return None


def _role(operation: Operation) -> Role | None:
    roles = [role_of(type_) for type_ in operation.arguments.values()]
    return roles[0] if len(roles) == 1 else None


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda letter: letter[1].upper(), name)
