"""A list finds out a watcher that fell silent, but does not blame a busy watcher, or an API server that is away."""

from __future__ import annotations

from streamsapp_operator.watch_health import WatchAge

APP = ("streamsapps", "ns", "app")
POD = ("pods", "ns", "app-0")


def test_owes_nothing_while_it_tells_what_a_list_shows() -> None:
    age = WatchAge(now=0.0)
    age.told(APP, "5", now=0.0)
    age.listed({APP: "5"}, began=10.0)
    assert age.behind(50.0) == 0.0


def test_is_behind_from_the_first_list_that_shows_more() -> None:
    age = WatchAge(now=0.0)
    age.told(APP, "5", now=0.0)
    age.listed({APP: "6"}, began=10.0)
    age.listed({APP: "9"}, began=30.0)
    assert age.behind(45.0) == 35.0


def test_an_object_that_was_never_told_of_is_owed() -> None:
    age = WatchAge(now=0.0)
    age.listed({APP: "1", POD: "2"}, began=10.0)
    age.told(APP, "1", now=11.0)
    assert age.behind(30.0) == 20.0


def test_any_event_after_the_list_pays_however_much_was_written_since() -> None:
    age = WatchAge(now=0.0)
    for began in range(0, 100, 10):
        age.listed({APP: f"list-{began}"}, began=float(began))
        age.told(APP, f"event-{began}", now=began + 0.5)
    assert age.behind(100.0) == 0.0


def test_an_event_that_came_while_a_list_was_made_counts() -> None:
    age = WatchAge(now=0.0)
    age.told(APP, "7", now=10.2)
    age.listed({APP: "6"}, began=10.0)
    assert age.behind(50.0) == 0.0


def test_what_is_gone_is_owed_no_more() -> None:
    age = WatchAge(now=0.0)
    age.listed({APP: "1", POD: "1"}, began=0.0)
    age.gone(APP)
    age.listed({}, began=10.0)
    assert age.behind(50.0) == 0.0


def test_counts_anew_after_the_api_server_was_away() -> None:
    age = WatchAge(now=0.0)
    age.listed({APP: "1"}, began=0.0)
    age.not_listed(began=65.0)
    assert age.behind(70.0) == 0.0
    age.listed({APP: "1"}, began=80.0)
    assert age.behind(85.0) == 5.0


def test_is_behind_when_nobody_looks_any_more() -> None:
    age = WatchAge(now=0.0)
    age.listed({}, began=10.0)
    assert age.behind(50.0) == 0.0
    assert age.behind(80.0) == 70.0
