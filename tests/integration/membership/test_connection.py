"""The membership's connection: credentials, encryption, brokers that come and go, and what it costs."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kafka_cluster import START_TIMEOUT, Kafka
from members import ENDLESS, TIMEOUT, Dealer, Members, tasks_of
from secured_broker import SecuredBroker
from streamsapp import TopicPartition
from streamsapp.brokers.transport import Transport
from streamsapp.clock import SystemClock
from streamsapp.deadline import Deadline
from streamsapp.errors import StreamsError
from streamsapp.local.broker import EmbeddedBroker
from streamsapp.membership.assignor.model import AssignorSettings, MemberState, Plan
from streamsapp.membership.rebalance import WATCH

ANNA = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "anna", "sasl.password": "secret"}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_member_shows_its_credentials(kafka: Kafka, broker: SecuredBroker, members: Members, mechanism: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    for done in admin.alter_user_scram_credentials([UserScramCredentialUpsertion("anna", info, b"secret")]).values():
        done.result()

    one = members.join(
        kafka.unique("app"),
        tasks_of(kafka.create_topic(), 1),
        kafka={**ANNA, "sasl.mechanism": mechanism},
        bootstrap_servers=f"127.0.0.1:{broker.sasl_port}",
    )

    members.settled(one, partitions=[0])
    assert one.member.begin_commit()
    one.member.end_commit()


@pytest.mark.parametrize("busy", [False, True])
def test_credentials_that_are_refused_are_an_error_that_says_so(
    kafka: Kafka, broker: SecuredBroker, members: Members, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    if busy:  # the broker's answer and the end of its connection are read together
        receive = Transport.recv_into

        def late(self: Transport, view: memoryview) -> int:
            time.sleep(0.3)
            return receive(self, view)

        monkeypatch.setattr(Transport, "recv_into", late)
    one = members.join(
        kafka.unique("app"),
        tasks_of(kafka.create_topic(), 1),
        kafka={**ANNA, "sasl.mechanism": "PLAIN", "sasl.password": "wrong"},
        bootstrap_servers=f"127.0.0.1:{broker.sasl_port}",
    )

    with pytest.raises(StreamsError, match=r"refuses the credentials.*sasl"):
        members.until(lambda: one.news, "the error")


@pytest.mark.parametrize("given", ["location", "pem"])
def test_a_member_trusts_the_authorities_it_is_given(
    kafka: Kafka, broker: SecuredBroker, members: Members, given: str
) -> None:
    text = broker.certificate.read_text(encoding="ascii")
    authority = {"ssl.ca.location": str(broker.certificate)} if given == "location" else {"ssl.ca.pem": text}

    one = members.join(
        kafka.unique("app"),
        tasks_of(kafka.create_topic(), 1),
        kafka={"security.protocol": "SSL", **authority},
        bootstrap_servers=f"127.0.0.1:{broker.tls_port}",
    )

    members.settled(one, partitions=[0])


def test_a_member_does_not_talk_to_a_broker_that_cannot_prove_who_it_is(
    kafka: Kafka, broker: SecuredBroker, members: Members
) -> None:
    one = members.join(
        kafka.unique("app"),
        tasks_of(kafka.create_topic(), 1),
        kafka={"security.protocol": "SSL"},
        bootstrap_servers=f"127.0.0.1:{broker.tls_port}",
    )

    with pytest.raises(StreamsError, match=r"its certificate is not believed \(self-signed .*ssl\.ca\.location"):
        members.until(lambda: one.news, "the error")


def test_a_member_waits_for_a_broker_that_is_not_there_yet_and_ends_without_it(
    kafka: Kafka, members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = members.join(kafka.unique("app"), tasks_of("nowhere", 1), bootstrap_servers="127.0.0.1:1")
    members.until(lambda: one.member.outage, "a try")

    members.leave_alone(one, monkeypatch)

    assert one.news == []


def test_a_member_goes_on_in_its_generation_after_the_broker_was_away(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, start_timeout=START_TIMEOUT)
    with broker:
        members = Members(Kafka(broker.bootstrap_servers))
        topic = members.kafka.create_topic(partitions=2)
        tasks = tasks_of(topic, 2)
        one, two = (members.join("app", tasks, kafka=ENDLESS) for _ in range(2))
        members.settled(one, two, partitions=range(2))
        generation = one.generation

        broker.kill()
        broker.start()
        away = one.member.safe_until
        members.until(lambda: one.member.safe_until > away, "a sign of life")

        def committed() -> bool:
            try:
                one.member.commit({TopicPartition(topic, min(one.active)): (5, "")})
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
                return False  # the broker still reads what it knows of the group
            return True

        assert one.member.begin_commit()
        members.until(committed, "the commit")
        one.member.end_commit()
        assert one.generation == two.generation == generation
        assert not one.losses
        members.close()


def test_a_member_that_hears_nothing_for_a_session_is_lost_and_joins_again(tmp_path: Path) -> None:
    short = {"group.min.session.timeout.ms": "1000"}
    broker = EmbeddedBroker(tmp_path, properties=short, start_timeout=START_TIMEOUT)
    with broker:
        members = Members(Kafka(broker.bootstrap_servers))
        one = members.join("app", tasks_of(members.kafka.create_topic(), 1))
        members.settled(one, partitions=[0])
        before = len(one.losses)  # a machine that stood still for a session is lost as well

        broker.kill()
        members.until(lambda: len(one.losses) > before, "the loss")
        assert one.member.safe_until < time.monotonic()
        assert not one.member.begin_commit()
        broker.start()

        members.settled(one, partitions=[0])
        members.close()


def test_a_member_that_joins_again_owns_nothing_before_its_polling_thread_has_heard_of_the_loss(
    kafka: Kafka, members: Members
) -> None:
    one = members.join(kafka.unique("app"), tasks_of(kafka.create_topic(), 1), kafka=ENDLESS)
    members.settled(one, partitions=[0])
    assert one.member._connection is not None
    assert one.member._rebalance is not None
    group = one.member._rebalance.group

    one.polls = False  # it stands still for a moment
    one.member._connection.run(group._expire, TIMEOUT, Deadline(SystemClock()))  # as after a silent session
    members.until(lambda: group.session.safe_until > time.monotonic(), "a new generation")

    assert one.member.safe_until == -math.inf
    one.polls = True
    members.until(lambda: one.member.safe_until > time.monotonic(), "the end of the loss")
    assert len(one.losses) == 1
    members.settled(one, partitions=[0])


def test_the_connections_are_not_heard_at_the_end(
    kafka: Kafka, members: Members, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one = members.join(kafka.unique("app"), tasks_of(kafka.create_topic(), 1), kafka=ENDLESS)
    members.settled(one, partitions=[0])

    caplog.clear()  # a busy broker may have been late with an answer before the end
    one.member.leave()

    assert [record for record in caplog.records if "brokers" in record.name] == []
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_an_idle_member_wakes_for_its_heartbeats_and_no_more(
    kafka: Kafka, members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = members.join(kafka.unique("app"), tasks_of(kafka.create_topic(), 1), kafka=ENDLESS)
    members.settled(one, partitions=[0])
    assert one.member._connection is not None
    assert one.member._rebalance is not None
    beats = calls_of(monkeypatch, one.member._rebalance.group, "_heartbeat")
    members.until(lambda: len(beats) >= 3, "heartbeats like all that come")
    before, began = len(beats), time.monotonic()
    turns = calls_of(monkeypatch, one.member._connection._loop, "turn")

    members.until(lambda: len(beats) >= before + 20, "some more heartbeats")

    # Of its loop: for each the time has come and the request goes out, and the answer comes in.
    # While a busy broker keeps them waiting, the polling thread is looked after all the same.
    late = time.monotonic() - began - 20 * 0.1
    assert len(turns) <= 3 * (len(beats) - before + 1) + 2 * late / WATCH


def calls_of(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[str]:
    """Grows by one with each call of a method."""
    made: list[str] = []
    call = getattr(owner, name)

    def called(*arguments: Any) -> Any:
        made.append(name)
        return call(*arguments)

    monkeypatch.setattr(owner, name, called)
    return made


class Busy(Dealer):
    """An assignor that takes until it is released."""

    def __init__(self) -> None:
        self.asked, self.released = Event(), Event()

    def assign(self, members: Mapping[str, MemberState], settings: AssignorSettings) -> Plan:
        self.asked.set()
        self.released.wait(TIMEOUT)
        return super().assign(members, settings)


def test_a_member_that_leaves_while_its_assignor_is_busy_hangs_up_as_soon_as_that_is_done(
    kafka: Kafka, members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamsapp.membership.member.LEAVE", 0.1)
    monkeypatch.setattr("streamsapp.membership.member.END", 0.1)
    busy = Busy()
    one = members.join(kafka.unique("app"), tasks_of(kafka.create_topic(), 1), busy)
    connection = one.member._connection
    assert connection is not None
    members.until(busy.asked.is_set, "the assignment")

    one.member.leave()
    assert connection.alive
    busy.released.set()

    connection._thread.join(TIMEOUT)
    assert not connection.alive
    assert connection._loop._ended
