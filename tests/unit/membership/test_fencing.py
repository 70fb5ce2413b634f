"""The instances that are dead, and the names under which instances write."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from streamsapp.kafka import group_member
from streamsapp.kafka.librdkafka import group_metadata
from streamsapp.membership.fencing import DepartedMembers, belongs_to, transactional_id


@pytest.mark.parametrize("instance_id", [None, "one"])
def test_group_metadata_is_what_librdkafka_writes(instance_id: str | None) -> None:
    static = {} if instance_id is None else {"group.instance.id": instance_id}
    consumer = Consumer({"group.id": "größe", **static})

    assert (
        group_metadata.group_metadata(group_member.Member("größe", -1, "", instance_id))
        == consumer.consumer_group_metadata()
    )
    consumer.close()


def test_every_life_of_an_instance_writes_under_a_name_of_its_own() -> None:
    assert transactional_id("app", None) != transactional_id("app", None)


def test_a_static_member_writes_under_the_same_name_after_a_restart() -> None:
    assert transactional_id("app", "one") == transactional_id("app", "one")


def test_names_of_static_members_of_different_applications_never_meet() -> None:
    assert transactional_id("app", "eu-1") != transactional_id("app-eu", "1")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(transactional_id("app", None), True, id="an instance"),
        pytest.param(transactional_id("app", "one"), True, id="a static member"),
        pytest.param(f"{transactional_id('app', None)}-1", True, id="a thread of Kafka Streams"),
        pytest.param(transactional_id("app-eu", None), False, id="an application with a longer name"),
        pytest.param("app-7", False, id="something that is no instance"),
        pytest.param(transactional_id("apq", None), False, id="another application"),
        pytest.param(transactional_id("app", None) + "x", False, id="something longer"),
    ],
)
def test_transactional_ids_of_an_application_are_known_from_others(name: str, expected: bool) -> None:
    assert belongs_to("app", name) == expected


def test_points_in_a_name_mean_points() -> None:
    assert not belongs_to("a.p", transactional_id("axp", None))


def test_who_is_missing_in_the_next_generation_is_dead() -> None:
    roll = DepartedMembers()
    roll.update({"a", "b", "c"}, (), 0.0)
    assert roll.missing({"a", "c", "d"}) == {"b"}

    roll.update({"a", "c", "d"}, (), 1.0)
    assert roll.dead == {"b"}


def test_the_dead_are_remembered_until_they_are_fenced() -> None:
    roll = DepartedMembers()
    roll.update({"a", "b"}, (), 0.0)
    roll.update({"a"}, (), 1.0)
    roll.update({"a", "c"}, (), 2.0)
    assert roll.dead == {"b"}

    roll.fenced({"b"})
    assert roll.dead == frozenset()


def test_a_newcomer_learns_of_the_dead_from_the_leader() -> None:
    roll = DepartedMembers()
    assert roll.first
    roll.update({"a", "new"}, {"b"}, 0.0)

    assert roll.dead == {"b"}
    assert not roll.first


def test_who_is_back_is_not_dead() -> None:
    roll = DepartedMembers()
    roll.update({"a", "static"}, (), 0.0)
    roll.update({"a"}, (), 1.0)
    roll.update({"a", "static"}, {"static"}, 2.0)

    assert roll.dead == frozenset()


def test_the_dead_are_forgotten_when_their_transactions_have_ended_in_any_case() -> None:
    roll = DepartedMembers()
    roll.update({"a", "b"}, (), 0.0)
    roll.update({"a"}, (), 1.0)
    roll.update({"a"}, {"b"}, 600.0)
    assert roll.dead == {"b"}

    roll.update({"a"}, {"b"}, 902.0)
    assert roll.dead == frozenset()
