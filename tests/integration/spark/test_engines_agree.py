"""Random programs as pods, on Spark, and switched from one to the other with kills: state and results are the same."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from engine_programs import engine_program
from engine_runs import EngineRun, Outcome, kill_a_worker
from instances import Instances

#: Each has sessions of Spark's.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]

#: Milliseconds before now: Kafka refuses records of the future, and a broker deletes old ones of windows.
_AGO = 3_600_000


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """Kills after the test all that still runs."""
    with ExitStack() as stack:
        yield stack


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One program, which takes minutes; ``--programs 25 --seed 3`` runs so many, from seed 3000 on."""
    count, start = (metafunc.config.getoption(name) for name in ("programs", "seed"))
    first = 1_000 * (start or 0) if count else 0
    metafunc.parametrize("seed", range(first, first + (count or 1)))


def test_a_random_program_ends_the_same_on_pods_on_spark_and_switched_between_them_with_kills(
    seed: int, instances: Instances, running: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"kills {seed}")
    program = engine_program(seed, int(time.time()) * 1000 - _AGO)
    pods, spark, switched = (EngineRun(instances, name, program) for name in ("pods", "spark", "switched"))
    for each in (pods, spark, switched):
        running.callback(each.close)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")  # a driver that is killed ends its own Java, and no other
    expected = by_pods(pods)
    assert any(expected[name] for name in program.results)
    assert differences(expected, by_spark(spark, random)) == {}, program.code
    assert differences(expected, by_both(switched, random)) == {}, program.code


def differences(one: Outcome, other: Outcome) -> dict[str, object]:
    """Both sides of what differs, by result or store and there by key or record."""
    pairs = {name: (one[name], other[name]) for name in one if one[name] != other[name]}
    return {
        name: {each: (a.get(each), b.get(each)) for each in {*a, *b} if a.get(each) != b.get(each)}
        for name, (a, b) in pairs.items()
    }


def by_pods(run: EngineRun) -> Outcome:
    run.feed()
    return ended(run, run.pod(0))


def by_spark(run: EngineRun, random: Random) -> Outcome:
    run.feed()
    outcome = ended(run, run.driver(random.choice([50, 130, 1_000])))
    run.catches_up_with_nothing()
    return outcome


def by_both(run: EngineRun, random: Random) -> Outcome:
    """Pods, Spark and pods, each killed in the middle and ended in good order or not; and one of them to the end."""
    run.feed(0.2)
    pods_for_a_while(run, random, 0)
    run.feed(0.2)
    spark_for_a_while(run, random)
    run.feed(0.3)
    pods_for_a_while(run, random, 2)
    run.feed()
    return ended(run, run.pod(4) if random.random() < 0.5 else run.driver(70))


def ended(run: EngineRun, process: subprocess.Popen[bytes]) -> Outcome:
    run.until_caught_up(process)
    run.end_inputs()
    run.until_caught_up(process)
    run.end(process)
    return run.outcome()


def pods_for_a_while(run: EngineRun, random: Random, number: int) -> None:
    pods = [run.pod(number + each) for each in range(random.choice([1, 2]))]
    run.worked_on(pods[0])
    for _ in range(random.choice([0, 1, 2])):
        run.feed(0.15)
        time.sleep(random.random() * 2)
        killed = random.randrange(len(pods))
        pods[killed].kill()
        pods[killed] = run.pod(number + killed)
    time.sleep(random.random())
    for pod in pods:
        if random.random() < 0.5:
            pod.kill()
        else:
            run.end(pod)


def spark_for_a_while(run: EngineRun, random: Random) -> None:
    records = random.choice([20, 100])
    driver = run.driver(records)
    run.worked_on(driver)
    for _ in range(random.choice([1, 2, 3])):
        run.feed(0.1)
        time.sleep(random.random() * 1.5)
        run.until(driver, lambda: kill_a_worker(driver, random), "a worker")
    if random.random() < 0.5:
        run.feed(0.1)
        time.sleep(random.random())
        driver.kill()
        run.feed(0.1)
        driver = run.driver(records)
        run.worked_on(driver)
    time.sleep(random.random())
    if random.random() < 0.4:
        driver.kill()
    else:
        run.end(driver)
