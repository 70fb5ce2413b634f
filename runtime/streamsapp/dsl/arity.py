"""Finds out which arguments a user's function takes. This is decided once while a program is built, never per record.

Called on the user's thread.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from streamsapp.errors import TopologyError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def require_arity(operation: str, function: Callable[..., Any], *arguments: str) -> None:
    """Raises ``TopologyError`` for a function that cannot be called with these arguments; a function that hides its
    signature is trusted."""
    _require_plain(operation, function)
    _require_arguments(operation, function, arguments)


def _require_arguments(operation: str, function: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    if not callable(function):
        raise TopologyError(f"{operation} needs a function of ({', '.join(arguments)}), not {function!r}")
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        raise TopologyError(
            f"{operation} calls its function with ({', '.join(arguments)}); {_describe(function)} does not take that"
        ) from None
    except ValueError:  # some built-ins have no signature
        return


def require_coroutine(operation: str, function: object) -> None:
    """Raises ``TopologyError`` for what is no coroutine function."""
    called = function if inspect.isfunction(function) else getattr(function, "__call__", function)  # noqa: B004
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)):
        raise TopologyError(
            f"{operation} needs a coroutine function, written with async def, not {function!r}; map_values takes others"
        )


def coroutine_takes_key(operation: str, function: Callable[..., Any], before: tuple[str, ...]) -> bool:
    """Says whether a coroutine function wants the key in front of the value, behind the arguments ``before`` both.
    Raises ``TopologyError`` for a function that is no coroutine function, or that cannot be called so."""
    require_coroutine(operation, function)
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.kind in _POSITIONAL and p.default is inspect.Parameter.empty]
    with_key = len(required) > len(before) + 1
    _require_arguments(operation, function, (*before, "key", "value") if with_key else (*before, "value"))
    return with_key


def require_arguments(
    operation: str,
    build: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
    example: str,
) -> None:
    """Raises ``TopologyError`` for arguments that an operator does not take, or lacks: the function that builds it is
    none that users know."""
    try:
        inspect.signature(build).bind(*arguments, **options)
    except TypeError as error:
        raise TopologyError(f"{operation}: {error}; write {example}") from None


def takes_key(operation: str, function: Callable[..., Any], *values: str) -> bool:
    """Says whether a function of values wants the key first: it does if it must be given one argument more than there
    are values.

    ``values`` holds the values' names for the error message; a mapper has one value.
    """
    return keys_taken(operation, function, ("key",), *(values or ("value",))) == 1


def keys_taken(operation: str, function: Callable[..., Any], keys: tuple[str, ...], *values: str) -> int:
    """Returns how many of the ``keys`` a function of values wants before them: as many as it must be given more
    arguments than there are values. Raises ``TopologyError`` for a function that cannot be called so."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return False
    except TypeError:
        ways = " or ".join(f"({', '.join((*keys[:taken], *values))})" for taken in range(len(keys) + 1))
        raise TopologyError(f"{operation} needs a function of {ways}, not {function!r}") from None
    required = [p for p in parameters if p.kind in _POSITIONAL and p.default is inspect.Parameter.empty]
    taken = min(max(len(required) - len(values), 0), len(keys))
    require_arity(operation, function, *keys[:taken], *values)
    return taken


def takes_last(operation: str, function: Callable[..., Any], arguments: tuple[str, ...], last: str) -> bool:
    """Says whether a function wants ``last`` behind its ``arguments``: it does if these are too few. Raises
    ``TopologyError`` for a function that cannot be called either way."""
    try:
        inspect.signature(function).bind(*arguments, last)
    except (TypeError, ValueError):
        require_arity(operation, function, *arguments)
        return False
    required = [p for p in inspect.signature(function).parameters.values() if p.kind in _POSITIONAL]
    return sum(p.default is inspect.Parameter.empty for p in required) > len(arguments)


def require(operation: str, argument: object, kind: type, example: str) -> None:
    """Raises ``TopologyError`` for an option of another class; ``None`` stands for an option that was left out."""
    if argument is not None and not isinstance(argument, kind):
        given = type(argument).__name__
        raise TopologyError(f"{operation} takes {kind.__name__} here, not {given}; write {example}")


def _require_plain(operation: str, function: object) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        name = getattr(function, "__qualname__", function)
        raise TopologyError(
            f"{operation}: {name} is a coroutine, which is never awaited; write it without async, or call it with "
            "map_async"
        )


def _describe(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__qualname__', function)}{inspect.signature(function)}"
