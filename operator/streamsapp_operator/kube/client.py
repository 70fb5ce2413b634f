"""A thin client of the API server: documents in, documents out.

Made once by ``__main__``; called on every thread. The login, its renewal and the connections are those of the
``kubernetes`` package. Nothing is tried twice here: the caller looks again, and decides anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
from kubernetes import client, config

from streamsapp.errors import ConfigError
from streamsapp_operator.kube.definition import lacks
from streamsapp_operator.kube.documents import read_json
from streamsapp_operator.kube.errors import Conflict, Gone, Rejected, Unavailable, error_of
from streamsapp_operator.kube.kinds import ACCESS_REVIEW, POD, Object, ResourceKind, kind_of

FIELD_MANAGER = "streamsapp-operator"

#: Seconds.
_CONNECT, _ANSWER = 3.0, 10.0
_PAGE = 500
_CHUNK = 64 << 10
_JSON = "application/json"
#: The words in which the API server refuses a field that it does not know, and a part of a status: both are of a
#: StreamsApp resource that is older than the writer.
_REFUSED_FIELD = re.compile(r'(?:unknown field "|: (?=status\.))([A-Za-z][A-Za-z0-9_.]{1,200})')
_METADATA_LIST = f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_METADATA = f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

#: Called with verb, plural and outcome of each request.
Heard = Callable[[str, str, str], None]


def login(kubeconfig: str | None = None) -> client.Configuration:
    """Logs in as the operator: with the account of the pod it runs in, or a kubeconfig outside a cluster."""
    found = client.Configuration()
    try:
        if kubeconfig is None:
            try:
                config.load_incluster_config(client_configuration=found)
                return found
            except config.ConfigException:
                pass  # not in a cluster
        config.load_kube_config(kubeconfig, client_configuration=found)
    except (config.ConfigException, OSError) as error:
        raise ConfigError(f"KUBECONFIG: neither in a cluster nor logged in to one: {error}") from error
    return found


class Client:
    """Calls the API server. It raises ``ApiError`` and nothing else."""

    def __init__(
        self,
        configuration: client.Configuration,
        heard: Heard = lambda verb, plural, outcome: None,
        manager: str = FIELD_MANAGER,
    ) -> None:
        configuration.connection_pool_maxsize = 16
        self._configuration = configuration
        self._manager = manager
        self._pool: urllib3.PoolManager = client.ApiClient(configuration).rest_client.pool_manager
        self._heard = heard
        #: Told of each object that was written, as the API server then has it.
        self.learned: Callable[[Object], None] = lambda document: None

    def close(self) -> None:
        """Closes the connections."""
        self._pool.clear()

    def may(self, verb: str, kind: ResourceKind, namespace: str | None) -> bool:
        """Asks whether the logged-in account may do this with objects of a kind; no namespace stands for all."""
        group = kind.api_version.rpartition("/")[0]
        wanted = {"verb": verb, "group": group, "resource": kind.plural, "namespace": namespace or ""}
        body = {
            "apiVersion": ACCESS_REVIEW.api_version,
            "kind": ACCESS_REVIEW.name,
            "spec": {"resourceAttributes": wanted},
        }
        answer = self._request("create", ACCESS_REVIEW, None, body=body)
        return bool((answer.get("status") or {}).get("allowed"))

    def get(
        self, kind: ResourceKind, namespace: str, name: str, *, metadata_only: bool = False, timeout: float = _ANSWER
    ) -> Object | None:
        """Returns one object, as it is now; ``None`` if there is none."""
        accept = _METADATA if metadata_only else _JSON
        try:
            return self._request("get", kind, namespace, name, headers={"Accept": accept}, timeout=timeout)
        except Gone:
            return None

    def list(
        self,
        kind: ResourceKind,
        namespace: str | None,
        labels: str | None = None,
        *,
        metadata_only: bool = False,
        fields: str | None = None,
        most: int | None = None,
    ) -> list[Object]:
        """Returns all objects of a kind with these labels and fields, or the first so many of them."""
        pages = self._pages(kind, namespace, labels, metadata_only, fields)
        return [*islice((item for page in pages for item in page.get("items") or ()), most)]

    def list_at(
        self, kind: ResourceKind, namespace: str | None, labels: str | None, *, metadata_only: bool = False
    ) -> tuple[Sequence[Object], str]:
        """Returns the same, and the resource version that the list is of: a watch goes on from there."""
        pages = [*self._pages(kind, namespace, labels, metadata_only)]
        found = [item for page in pages for item in page.get("items") or ()]
        return found, str(pages[-1]["metadata"]["resourceVersion"])

    def watch(
        self,
        kind: ResourceKind,
        namespace: str | None,
        labels: str | None,
        version: str,
        seconds: int,
        *,
        metadata_only: bool = False,
        fields: str | None = None,
    ) -> Generator[tuple[str, Object], None, None]:
        """Watches what happens after ``version``, as ADDED, MODIFIED, DELETED or BOOKMARK, for ``seconds`` at most.
        ``Gone`` says that this version is too old; ``Unavailable`` that the watch broke, or is silent after its end."""
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        query |= {"timeoutSeconds": str(seconds)} | _selected(labels, fields)
        url = f"{self._configuration.host}{kind.path(_segment(namespace))}?{urlencode(query)}"
        accept = _METADATA if metadata_only else _JSON
        sent = {"Accept": accept, "User-Agent": FIELD_MANAGER, **self._authorization()}
        doing = f"watch {kind.plural}" + (f" in namespace {namespace}" if namespace else "")
        limit = urllib3.Timeout(connect=_CONNECT, read=seconds + _ANSWER)
        try:
            answer = self._pool.request("GET", url, headers=sent, timeout=limit, retries=False, preload_content=False)
            self._heard("watch", kind.plural, str(answer.status))
            try:
                if answer.status != 200:
                    raise error_of(answer.status, _document(answer.status, answer.read()), doing)
                for line in _lines(answer.stream(_CHUNK)):
                    event = read_json(line)
                    if event["type"] == "ERROR":
                        raise error_of(int(event["object"].get("code") or 500), event["object"], doing)
                    yield event["type"], event["object"]
            finally:
                answer.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise Unavailable(f"{doing}: {type(error).__name__}: {error}") from error

    def _pages(
        self,
        kind: ResourceKind,
        namespace: str | None,
        labels: str | None,
        metadata_only: bool,
        fields: str | None = None,
    ) -> Iterator[Object]:
        query = {"limit": str(_PAGE)} | _selected(labels, fields)
        accept = _METADATA_LIST if metadata_only else _JSON
        while True:
            page = self._request("list", kind, namespace, headers={"Accept": accept}, query=query)
            yield page
            following = page["metadata"].get("continue")
            if not following:
                return
            query["continue"] = following

    def create(self, document: Object, timeout: float = _ANSWER) -> Object:
        """Creates an object; raises ``Conflict`` if it exists. A field that there is not is a fault, not passed
        over."""
        kind, namespace = kind_of(document), document["metadata"]["namespace"]
        query = {"fieldValidation": "Strict", "fieldManager": FIELD_MANAGER}
        return self._request("create", kind, namespace, query=query, body=document, timeout=timeout)

    def replace(self, document: Object, timeout: float = _ANSWER) -> Object:
        """Replaces an object as a whole, guarded by the resource version that it has, if it has one."""
        metadata = document["metadata"]
        kind, namespace, name = kind_of(document), metadata["namespace"], metadata["name"]
        query = {"fieldManager": FIELD_MANAGER}
        return self._request("update", kind, namespace, name, query=query, body=document, timeout=timeout)

    def try_replace(self, document: Object) -> Object:
        """Asks what ``replace`` would answer, with nothing written: the document that was sent, the uid of the object
        that is there, and the earlier owners of those fields that would stay as they are."""
        metadata = document["metadata"]
        query = {"dryRun": "All", "fieldManager": f"{FIELD_MANAGER}-try"}
        return self._request(
            "update", kind_of(document), metadata["namespace"], metadata["name"], query=query, body=document
        )

    def apply(self, document: Object) -> Object:
        """Applies a document (server-side apply): fields that the document has become so, fields that it had before and
        has no more go."""
        metadata = document["metadata"]
        return self._request(
            "patch",
            kind_of(document),
            metadata["namespace"],
            metadata["name"],
            headers={"Content-Type": "application/apply-patch+yaml"},
            query={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=document,
        )

    def merge(self, kind: ResourceKind, namespace: str, name: str, changes: Object) -> Object:
        """Merges some fields of an object; guarded if ``changes`` has a resource version."""
        return self._request(
            "patch",
            kind,
            namespace,
            name,
            headers={"Content-Type": "application/merge-patch+json"},
            query={"fieldManager": self._manager},
            body=changes,
        )

    def write_status(self, document: Object, status: Object, known: Object | None = None) -> Object:
        """Writes all of an object's status; raises ``Conflict`` if the object is no longer what ``document`` says, and
        ``OlderDefinition`` if the API server does not know every field of the spec ``known`` (``kube.definition``)."""
        metadata = document["metadata"]
        operations = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            {"op": "add", "path": "/status", "value": status},
        ]
        query = {"fieldManager": FIELD_MANAGER}
        if known is not None:
            operations.append({"op": "add", "path": "/spec", "value": known})
            query["fieldValidation"] = "Strict"
        try:
            return self._request(
                "patch",
                kind_of(document),
                metadata["namespace"],
                metadata["name"],
                "status",
                headers={"Content-Type": "application/json-patch+json"},
                query=query,
                body=operations,
            )
        except Rejected as error:
            unknown = _REFUSED_FIELD.findall(error.said) if known is not None else []
            if unknown:
                raise lacks(unknown) from error
            raise

    def evict(self, namespace: str, pod: str, uid: str, resource_version: str | None = None) -> None:
        """Evicts a pod, unless it changed. ``Refused`` says that the budget is against it. A pod that is gone already
        counts as evicted.

        A resource version among the preconditions would do more harm than good: it is looked at after the budget was
        charged. A charge for nothing comes back only after two minutes, and meanwhile no pod may be evicted.
        """
        if resource_version is not None:
            self._require_at(namespace, pod, resource_version)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            self._request("create", POD, namespace, pod, "eviction", body=body)
        except Gone:
            return

    def evict_while(
        self, still_good: Callable[[], bool], namespace: str, pod: str, uid: str, resource_version: str
    ) -> None:
        """Evicts a pod, unless it changed, or the facts that it was judged by are too old once that is known: the API
        server may take its time to say so. Raises ``Conflict`` then."""
        self._require_at(namespace, pod, resource_version)
        if not still_good():
            raise Conflict(f"the observations of pod {pod} are too old by now")
        self.evict(namespace, pod, uid)

    def _require_at(self, namespace: str, pod: str, resource_version: str) -> None:
        found = self.get(POD, namespace, pod, metadata_only=True)
        if found is None or found["metadata"]["resourceVersion"] != resource_version:
            raise Conflict(f"pod {pod} has changed since it was observed")

    def delete(self, kind: ResourceKind, namespace: str, name: str, *, dependents_first: bool = False) -> None:
        """Deletes an object; an object that is gone already counts as deleted. With ``dependents_first`` it is there,
        being deleted, until the objects it owns are gone."""
        try:
            query = {"propagationPolicy": "Foreground"} if dependents_first else None
            self._request("delete", kind, namespace, name, query=query)
        except Gone:
            return

    def _request(
        self,
        verb: str,
        kind: ResourceKind,
        namespace: str | None,
        name: str | None = None,
        subresource: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        timeout: float = _ANSWER,
    ) -> Object:
        path = kind.path(_segment(namespace), _segment(name), subresource)
        plural = kind.plural if subresource is None else f"{kind.plural}/{subresource}"
        doing = " ".join(part for part in (verb, plural, name, namespace and f"in namespace {namespace}") if part)
        try:
            code, answer = self._exchange(_METHODS[verb], path, headers or {}, query, body, timeout)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            self._heard(verb, plural, "unreachable")
            raise Unavailable(f"{doing}: {type(error).__name__}: {error}") from error
        self._heard(verb, plural, str(code))
        if 200 <= code < 300:
            if verb in {"create", "patch"} and subresource is None:
                self.learned(answer)
            return answer
        evicting, writing = subresource == "eviction", verb not in {"get", "list"}
        raise error_of(code, answer, doing, evicting=evicting, writing=writing)

    def _exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None,
        body: Any,
        timeout: float,
    ) -> tuple[int, Object]:
        url = self._configuration.host + path + (f"?{urlencode(query)}" if query else "")
        sent = {"Accept": _JSON, "User-Agent": FIELD_MANAGER, **self._authorization(), **headers}
        if body is not None:
            sent.setdefault("Content-Type", _JSON)
        answer = self._pool.request(
            method,
            url,
            headers=sent,
            body=None if body is None else json.dumps(body).encode(),
            timeout=urllib3.Timeout(connect=min(_CONNECT, timeout), read=timeout),
            retries=False,
        )
        return answer.status, _document(answer.status, answer.data)

    def _authorization(self) -> dict[str, str]:
        """Returns a token, renewed when it has to be; with a certificate there is none."""
        settings: Any = self._configuration.auth_settings().values()
        return {str(each["key"]): str(each["value"]) for each in settings if each["in"] == "header" and each["value"]}


_METHODS = {"get": "GET", "list": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


def _segment(name: str | None) -> str | None:
    """Returns a name, which users may have chosen, as one part of a path and never more. No object has the names that
    stand for folders, and a client on the way would take them for such."""
    if name in {"", ".", ".."}:
        raise Gone(f"{name!r} is the name of no object")
    return None if name is None else quote(name, safe="")


def _selected(labels: str | None, fields: str | None) -> dict[str, str]:
    """Returns the selectors as parameters of a query."""
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in given.items() if value is not None}


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields whole lines; a line that the end cuts off is left out."""
    begun: list[bytes] = []
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*begun, line])
            begun = []
        begun.append(rest)


def _document(code: int, data: bytes) -> Object:
    """Reads a refusal, which may come as plain text, from a proxy say; it is reported by its beginning."""
    try:
        found = read_json(data)
    except ValueError:
        if 200 <= code < 300:
            raise
        found = None
    return found if isinstance(found, dict) else {"message": data[:200].decode(errors="replace").strip()}
