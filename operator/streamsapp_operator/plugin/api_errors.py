"""Turns errors of the API server into words for the user who typed a command. Called on the plugin's threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamsapp_operator.kube.errors import ApiError, Conflict, Forbidden, Gone, Rejected
from streamsapp_operator.plugin.errors import WRONG_INPUT, PluginError
from streamsapp_operator.plugin.text import clean

#: As ``kubectl auth can-i`` wants them.
_FULL_NAMES = {"streamsapps": "streamsapps.streamsapp.dev", "statefulsets": "statefulsets.apps"}


@contextmanager
def told(doing: str, host: str, namespace: str) -> Iterator[None]:
    """Raises ``PluginError`` for requests that the API server refuses; ``doing`` is a verb and a resource."""
    try:
        yield
    except Forbidden as error:
        raise not_allowed(doing, namespace) from error
    except Rejected as error:
        raise PluginError(clean(str(error)), WRONG_INPUT) from error
    except (Gone, Conflict) as error:
        raise PluginError(f"{clean(str(error))}; try again") from error
    except ApiError as error:
        reason = clean(str(error)).rpartition(": ")[2]
        raise PluginError(f"{host}: {reason}; is the cluster up, and --context right?") from error


def not_allowed(doing: str, namespace: str) -> PluginError:
    """Returns the error of a right that is missing."""
    verb, resource = doing.split()
    plural, slash, subresource = resource.partition("/")
    full = _FULL_NAMES.get(plural, plural) + slash + subresource
    check = f"kubectl auth can-i {verb} {full} -n {namespace}"
    return PluginError(f"you may not {doing} in namespace {namespace}; ask for it, and see with: {check}")
