"""The cluster as one viewer may see it: with the viewer's token, and never with the operator's login.

Made for each request of the console, on the thread of its connection, and closed there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

from kubernetes import client

from streamsapp_operator.annotation_requests import Annotations
from streamsapp_operator.children.names import NAME_LABEL, http_secret_name
from streamsapp_operator.kube.client import Client
from streamsapp_operator.kube.errors import ApiError, Gone, Unauthorized
from streamsapp_operator.kube.kinds import EVENT, POD, SECRET, STREAMS_APP, Object
from streamsapp_operator.pod_tokens import read_tokens

#: Events that are read at each look: any user with the right to it may make any number.
MOST_EVENTS = 1000
_MANAGER = "streamsapp-console"
_BEARER = re.compile(r"[Bb]earer +([!-~]+)")


def configuration_of(operator: client.Configuration, token: str) -> client.Configuration:
    """Returns the API server that the operator knows, with nothing of the operator's login."""
    found = client.Configuration()
    for name in ("host", "ssl_ca_cert", "verify_ssl", "tls_server_name", "proxy", "no_proxy"):
        setattr(found, name, getattr(operator, name))
    found.api_key["authorization"] = f"Bearer {token}"
    return found


@contextmanager
def viewer_of(operator: client.Configuration, authorization: str) -> Iterator[Viewer]:
    """Gives the viewer who sent this header; raises ``Unauthorized`` if it has no token."""
    shown = _BEARER.fullmatch(authorization)
    if shown is None:
        raise Unauthorized("send 'Authorization: Bearer <token>', with a token of the API server")
    with closing(Client(configuration_of(operator, shown[1]), manager=_MANAGER)) as found:
        yield Viewer(found)


class Viewer:
    """Reads, and changes annotations; every method raises ``ApiError``."""

    def __init__(self, found: Client) -> None:
        self.client = found

    def app(self, namespace: str, name: str) -> Object:
        found = self.client.get(STREAMS_APP, namespace, name)
        if found is None:
            raise Gone(f"there is no StreamsApp {name} in namespace {namespace}")
        return found

    def pods(self, namespace: str, app: str) -> list[Object]:
        return self.client.list(POD, namespace, f"{NAME_LABEL}={app}")

    def tokens(self, namespace: str, app: str) -> tuple[str, ...]:
        """Returns the tokens that the application's pods accept: a user who may read their Secret may ask them."""
        return read_tokens(self.client.get(SECRET, namespace, http_secret_name(app)))

    def events(self, namespace: str, app: str, uid: str) -> list[Object]:
        about = f"involvedObject.kind={STREAMS_APP.name},involvedObject.name={app},involvedObject.uid={uid}"
        return self.client.list(EVENT, namespace, fields=about, most=MOST_EVENTS)

    def annotate(self, namespace: str, app: str, annotations: Annotations) -> None:
        self.client.merge(STREAMS_APP, namespace, app, {"metadata": {"annotations": dict(annotations)}})


def words(error: ApiError) -> str:
    """Returns an error for the viewer: the API server's answer about rights names the viewer."""
    return error.said or str(error)
