"""When an instance is started again, and when it is killed."""

from __future__ import annotations

from streamsapp.supervisor.restart_policy import LivenessChecks, RestartBackoff


def test_restarts_wait_longer_each_time_up_to_a_bound() -> None:
    restarts = RestartBackoff()
    assert [restarts.after(1, 0) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_an_instance_that_ran_for_a_while_starts_again_soon() -> None:
    restarts = RestartBackoff()
    delays = [restarts.after(-9, ran) for ran in (1, 1, 60, 59)]
    assert delays == [0.5, 1, 0.5, 1]


def test_wrong_input_is_not_tried_again_and_a_good_end_is() -> None:
    assert RestartBackoff().after(2, 100) is None
    assert RestartBackoff().after(0, 100) == 0.5


def test_bad_answers_in_a_row_kill_and_single_ones_do_not() -> None:
    health = LivenessChecks()
    heard = [health.heard(answer) for answer in (False, False, True, False, False, False, False)]
    assert heard == [False, False, False, False, False, True, False]


def test_silence_is_borne_for_longer() -> None:
    health = LivenessChecks()
    assert [health.heard(None) for _ in range(7)] == [False] * 5 + [True, False]
    assert not any(health.heard(answer) for answer in (None, False, None, False, True))
