"""Which tasks a batch has, and how far they read."""

from __future__ import annotations

from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.first_records import ends_without_records
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.micro_batches.lanes import of_lanes, transactional_id
from streamsapp.runtime.micro_batches.model import InputTarget, LaneTaskReport
from streamsapp.runtime.micro_batches.planning import MicroBatchPlanner, MicroBatchSize

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)
A, B, C = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("a", 1)


def planner(max_records: int | None = None, lanes: int = 1) -> MicroBatchPlanner:
    size = None if max_records is None else MicroBatchSize(max_records, 0)
    made = MicroBatchPlanner({FIRST: (A, B), SECOND: (C,)}, lanes, size)
    made.positions = {A: 10, B: 0, C: 5}
    made.ends = {A: 30, B: 0, C: 5}
    return made


def report(task_id: TaskId, positions: dict[TopicPartition, int], due_at_ms: int | None = None) -> LaneTaskReport:
    return LaneTaskReport(task_id, 0, 0, positions, positions, 0, 0, 0, {}, due_at_ms)


def test_only_tasks_with_new_records_are_in_a_batch_and_all_of_their_inputs_are_named() -> None:
    (lane,) = planner().plan(0)
    (order,) = lane.tasks
    assert (order.id, order.targets) == (FIRST, {A: InputTarget(10, 30, True), B: InputTarget(0, 0, True)})


def test_nothing_is_planned_when_everything_is_read() -> None:
    made = planner()
    made.report(report(FIRST, {A: 30, B: 0}))
    assert made.plan(0) == ()
    assert (made.lag(FIRST), made.total_lag) == (0, 0)


def test_a_task_whose_time_has_come_is_in_a_batch_without_records() -> None:
    made = planner()
    made.report(report(FIRST, {A: 30, B: 0}))
    made.report(report(SECOND, {C: 5}, due_at_ms=1_000))
    assert made.plan(999) == ()
    ((order,),) = (lane.tasks for lane in made.plan(1_000))
    assert (order.id, order.targets) == (SECOND, {C: InputTarget(5, 5, True)})
    made.report(report(SECOND, {C: 5}))
    assert made.plan(2_000) == ()


def test_when_an_application_starts_every_task_is_opened() -> None:
    made = planner(lanes=2)
    made.due_at_once(made.partitions)
    assert [[order.id for order in lane.tasks] for lane in made.plan(0)] == [[FIRST], [SECOND]]


def test_a_bounded_batch_takes_a_part_of_each_partition_and_at_least_a_record() -> None:
    made = planner(max_records=4)
    made.ends = {A: 1_010, B: 2, C: 5}
    (lane,) = made.plan(0)
    targets = lane.tasks[0].targets
    assert targets[B] == InputTarget(0, 1, False)
    assert (targets[A].start, targets[A].at_end) == (10, False)
    assert targets[A].until == 10 + 3, "with the one of the other partition that is what a batch may have"


def test_an_open_order_says_how_much_a_commit_of_its_lane_may_take() -> None:
    inputs, size = {FIRST: (A, B), SECOND: (C,)}, MicroBatchSize(5, 0)
    made = MicroBatchPlanner(inputs, 2, size, opens=True)
    made.positions = made.ends = {A: 10, B: 0, C: 5}
    assert [(order.is_open, order.commit_records) for order in made.plan(0)] == [(True, 2), (True, 2)]
    assert [order.commit_records for order in made.given_up({0, 1})] == [None, None]
    made = MicroBatchPlanner(inputs, 1, opens=True)
    made.positions = made.ends = {A: 10, B: 0, C: 5}
    assert [order.commit_records for order in made.plan(0)] == [None]


def test_bounds_end_a_batch_before_the_topics_do() -> None:
    (lane,) = planner().plan(0, {A: 12})
    assert lane.tasks[0].targets[A] == InputTarget(10, 12, False)
    assert planner().plan(0, {A: 10}) == ()


def test_lanes_are_told_from_instances_and_from_lanes_of_other_applications() -> None:
    lanes = {transactional_id("app", number) for number in (0, 7, 12)}
    others = {transactional_id("app-1", 0), "app-0", "app-6ba7b810-9dad-11d1-80b4-00c04fd430c8-1", "other"}
    assert of_lanes("app", lanes | others) == lanes


def test_records_that_come_together_with_the_end_of_their_partition_are_not_passed_over() -> None:
    assert ends_without_records(Fetched(records=[(A, [])], ends={A: 60, B: 7})) == {B: 7}


def test_full_batches_grow_to_what_can_be_done_between_two_of_them_and_not_beyond_the_most_that_is_allowed() -> None:
    size, sizes = MicroBatchSize(50_000, 1.0), []
    for _ in range(4):
        sizes.append(size.records)
        size.took(size.records, size.records / 100_000)
    assert sizes == [20_000, 40_000, 50_000, 50_000]


def test_a_batch_that_takes_too_long_shrinks_by_half_at_most_until_batches_fit() -> None:
    size, sizes = MicroBatchSize(500_000, 1.0), []
    for _ in range(4):
        sizes.append(size.records)
        size.took(size.records, size.records / 8_000)
    assert sizes == [20_000, 10_000, 6_400, 6_400]


def test_batches_that_are_not_full_do_not_change_the_size_and_neither_do_those_without_end() -> None:
    size = MicroBatchSize(500_000, 1.0)
    size.took(100, 0.1)
    size.took(0, 30.0)
    assert size.records == 20_000
    one_after_the_other = MicroBatchSize(500_000, 0)
    one_after_the_other.took(500_000, 60.0)
    assert one_after_the_other.records == 500_000


def test_a_slow_batch_of_few_records_leaves_enough_for_progress() -> None:
    size = MicroBatchSize(500_000, 1.0)
    for _ in range(20):
        size.took(1, 5.0)
    assert size.records == 100


def test_open_orders_are_of_all_tasks_and_those_that_give_up_are_not_open() -> None:
    made = MicroBatchPlanner({FIRST: (A, B), SECOND: (C,)}, 2, opens=True)
    made.positions = {A: 30, B: 0, C: 5}
    made.ends = dict(made.positions)
    orders = made.plan(0)
    assert [(order.is_open, [task.id for task in order.tasks]) for order in orders] == [
        (True, [FIRST]),
        (True, [SECOND]),
    ]
    assert orders[0].starts == {A: 30, B: 0}
    assert not any(order.is_open for order in (*made.given_up([0]), *made.last([FIRST])))
