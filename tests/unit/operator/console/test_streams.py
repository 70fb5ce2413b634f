"""The stream of a page while the API server says this and that; a viewer who may no longer look gets no more."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from kubectl_parts import app_document, healthy_status
from streamsapp.clock import SystemClock
from streamsapp_operator.console import streams
from streamsapp_operator.console.streams import LookTools, application, applications
from streamsapp_operator.console.viewer import Viewer
from streamsapp_operator.kube.client import Client
from streamsapp_operator.kube.errors import ApiError, Forbidden, Gone, Unauthorized, Unavailable, error_of
from streamsapp_operator.kube.kinds import Object, ResourceKind
from streamsapp_operator.observe import PodAsker
from streamsapp_operator.steady_clock import SteadyClock

CLOCK = SteadyClock(SystemClock())


def app(name: str, namespace: str = "apps", **status: Any) -> Object:
    document = app_document(healthy_status(**status))
    document["metadata"] |= {"name": name, "namespace": namespace, "resourceVersion": "5"}
    return document


class ScriptedClient(Client):
    """Lists and watches give the scripted answers, one after the other; a viewer may see applications only."""

    def __init__(self, lists: Sequence[list[Object] | ApiError], watches: Sequence[list[Any] | ApiError]) -> None:
        self._lists, self._watches = deque(lists), deque(watches)
        self.watched: list[str | None] = []

    def list_at(self, *_: Any, **__: Any) -> tuple[Sequence[Object], str]:
        return given(self._lists.popleft()), "7"

    def watch(self, *arguments: Any, fields: str | None = None, **_: Any) -> Generator[tuple[str, Object], None, None]:
        self.watched.append(fields)
        yield from given(self._watches.popleft())

    def get(self, kind: ResourceKind, *_: Any, **__: Any) -> Object | None:
        found = given(self._lists.popleft())
        return found[0] if found else None

    def list(self, kind: ResourceKind, *_: Any, **__: Any) -> list[Object]:
        said = f'User "vera" cannot list resource "{kind.plural}" in API group ""'
        raise error_of(403, {"message": said}, "list")

    def may(self, verb: str, kind: ResourceKind, namespace: str | None) -> bool:
        return False


def given(told: list[Any] | ApiError) -> list[Any]:
    if isinstance(told, ApiError):
        raise told
    return told


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEAST_SECONDS", "FAULT_SECONDS"):
        monkeypatch.setattr(streams, name, 0.0)


def listed(client: ScriptedClient, watched: Sequence[str] = ()) -> list[Any]:
    return list(applications(Viewer(client), None, watched))


def keys(document: Any) -> list[str]:
    return [key for key, _ in document["table"]["rows"]]


def test_all_applications_come_first_and_then_each_that_changes_or_goes() -> None:
    changes = [("ADDED", app("c")), ("BOOKMARK", app("x")), ("DELETED", app("a"))]
    client = ScriptedClient([[app("a"), app("b")]], [changes, [], Unauthorized("the token ended")])
    first, added, gone, nothing, still = listed(client)
    assert keys(first) == ["apps/a", "apps/b"]
    assert added["row"][0] == "apps/c"
    assert gone == {"row": ["apps/a", None]}
    assert (nothing, still) == (None, None)


def test_applications_of_namespaces_that_the_operator_does_not_watch_are_left_out() -> None:
    changes = [("ADDED", app("theirs", "other"))]
    client = ScriptedClient([[app("a"), app("b", "other")]], [changes, Unauthorized("the token ended")])
    first, nothing = listed(client, ["apps"])
    assert (keys(first), nothing) == (["apps/a"], None)


def test_a_watch_that_is_too_old_begins_with_a_list_and_a_server_that_is_away_is_told() -> None:
    away = Unavailable("the API server is away")
    client = ScriptedClient([[], away, [app("a")]], [Gone("too old"), Unauthorized("the token ended")])
    first, fault, again = listed(client)
    assert (keys(first), fault, keys(again)) == ([], {"fault": "the API server is away"}, ["apps/a"])


def test_a_cluster_that_knows_no_applications_any_more_is_told_and_is_not_asked_without_a_pause() -> None:
    removed = Gone("the server could not find the requested resource")
    client = ScriptedClient([[app("a")], removed, Unauthorized("the token ended")], [removed])
    first, *told = listed(client)
    assert keys(first) == ["apps/a"]
    assert told == [{"fault": "the server could not find the requested resource"}]


def test_who_lost_the_right_to_watch_is_told_so_and_sees_no_more() -> None:
    lost = Forbidden("you may not watch streamsapps")
    client = ScriptedClient([[app("a")], lost, Unauthorized("the token ended")], [lost])
    first, *told = listed(client)
    assert keys(first) == ["apps/a"]
    assert told == [{"fault": "you may not watch streamsapps"}] * 2


def test_one_application_is_shown_anew_when_it_changes_and_what_may_not_be_seen_is_said() -> None:
    client = ScriptedClient(
        [[app("a")], [app("a", phase="Restarting")], [], Unauthorized("the token ended")],
        [[("BOOKMARK", app("a")), ("MODIFIED", app("a"))], []],
    )
    tools = LookTools(PodAsker(CLOCK), CLOCK)
    first, second, gone = application(Viewer(client), "apps", "a", tools)
    assert first is not None
    assert second is not None
    assert (first["page"]["state"]["value"], second["page"]["state"]["value"]) == ("Running", "Restarting")
    assert [note.partition(":")[0] for note in first["page"]["notes"]] == [
        "You may not see pods",
        "You may not see events",
    ]
    assert first["page"]["requests"] == []
    assert gone == {"fault": "there is no StreamsApp a in namespace apps"}
    assert client.watched == ["metadata.name=a"] * 2
