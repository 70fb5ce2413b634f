"""An operator decides from a Lease and a clock who leads, and from nothing else."""

from __future__ import annotations

from streamsapp_operator.kube.election import Election, ElectionStep, LeaseSeen


def seen(holder: str, renewed: str = "1", seconds: float = 15.0) -> LeaseSeen:
    return LeaseSeen(holder, renewed, seconds, transitions=3)


def test_claims_a_lease_that_nobody_has() -> None:
    election = Election("me", deadline=10)
    assert election.decide(None, 0.0) is ElectionStep.CLAIM
    assert election.decide(seen(""), 1.0) is ElectionStep.CLAIM


def test_claims_its_own_lease_at_once_after_a_crash() -> None:
    assert Election("me", deadline=10).decide(seen("me"), 0.0) is ElectionStep.CLAIM


def test_waits_while_another_one_renews() -> None:
    election = Election("me", deadline=10)
    for now in range(0, 100, 2):
        assert election.decide(seen("other", renewed=str(now)), float(now)) is ElectionStep.WAIT


def test_claims_a_lease_that_it_saw_unchanged_for_longer_than_it_lasts() -> None:
    election = Election("me", deadline=10)
    assert election.decide(seen("other"), 100.0) is ElectionStep.WAIT
    assert election.decide(seen("other"), 115.0) is ElectionStep.WAIT
    assert election.decide(seen("other"), 115.1) is ElectionStep.CLAIM


def test_a_lease_that_changed_hands_is_waited_for_anew() -> None:
    election = Election("me", deadline=10)
    election.decide(seen("other"), 0.0)
    assert election.decide(seen("third"), 14.0) is ElectionStep.WAIT
    assert election.decide(seen("third"), 20.0) is ElectionStep.WAIT


def test_leads_from_the_moment_a_renewal_was_sent_and_stops_before_anybody_else_may_begin() -> None:
    election, lease = Election("me", deadline=10), seen("me")
    assert election.remaining(0.0) <= 0
    election.wrote(sent_at=5.0)
    assert election.remaining(14.9) > 0
    assert election.remaining(15.0) <= 0
    other = Election("other", deadline=10)
    other.decide(lease, 5.0)
    assert other.decide(lease, 15.0) is ElectionStep.WAIT
