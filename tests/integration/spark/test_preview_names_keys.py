"""A preview of a random change of a random program names the keys that the change is for: the test driver, which runs
both programs over the same records, says which those are."""

from __future__ import annotations

import json
import time
from collections import Counter
from random import Random
from typing import Any

import pytest

from engine_programs import EngineProgram, Same, engine_program
from engine_runs import EngineRun
from instances import Instances
from spark_apps import finished
from streamsapp import Serdes
from streamsapp.manifest.entrypoint import read_app
from streamsapp.manifest.to_config import to_config
from streamsapp.testing import TopologyTestDriver

#: Each has several sessions of Spark's.
pytestmark = [pytest.mark.timeout(1100), pytest.mark.long]

_AGO = 3_600_000
_TEXT, _RAW = Serdes.string(), Serdes.bytes()

#: A line before those of the program, as tomorrow's code may have it.
_CHANGES = (
    's{0} = s{0}.map_values(lambda key, value: value + "!" if key == "b1" else value)',
    's{0} = s{0}.filter(lambda key, value: key != "c0")',
    's{0} = s{0}.filter(lambda key, value: value != "a7")',
    's{0} = s{0}.flat_map_values(lambda key, value: [value, value] if key == "d0" else [value])',
    's{0} = s{0}.map(lambda key, value: ("new" if key == "e0" else key, value)).repartition(Repartitioned(TEXT, TEXT))',
    's{0}.filter(lambda key, value: key == "a1").to("<extra>", texts)',
    't{0} = t{0}.map_values(lambda key, value: value + "!" if key in ("k2", "b") else value)',
    't{0} = t{0}.map_values(lambda key, value: None if key in ("k3", "c") else value)',
    't{0} = t{0}.filter(lambda key, value: not value.startswith("d"))',
    "pass",
)


@pytest.mark.seeds(2)
def test_the_keys_are_named_whose_results_and_state_a_random_change_changes(seed: int, instances: Instances) -> None:
    random = Random(f"changes {seed}")
    program = engine_program(seed, int(time.time()) * 1000 - _AGO, records=100, pieces=2)
    run = EngineRun(instances, "today", program, partitions=1)
    run.topics["extra"] = run.kafka.create_topic("extra", 1)
    run.feed()
    run.end_inputs()
    # The values of a foreign-key join's tables are in topics: a table that is mapped there has no serdes for them.
    foreign = ", lambda value: value[0], lambda one, other:" in program.code
    changes = [each for each in _CHANGES if not (foreign and each.startswith("t{0}") and "map_values" in each)]
    change = random.choice(changes).format(random.choice("01"))
    changed = program.code.replace("    g0 = ", f"    {change}\n    g0 = ")
    code, differences = previewed(run, changed)
    today, tomorrow = (outcome(run, program, run.code(of)) for of in (program.code, changed))
    told = {(each["of"], each["name"], each["key"]) for each in differences}
    wrong = {}
    for name, same in [*program.results.items(), ("extra", Same.IN_ORDER)]:
        topic = run.topics[name]
        named = {key for of, each, key in told if (of, each) == ("result", topic)}
        must = different(today.get(topic, []), tomorrow.get(topic, []), ordered=same is Same.IN_ORDER)
        if not named >= must or (same is Same.IN_ORDER and named != must) or (change == "pass" and named):
            wrong[name] = named, must
    assert wrong == {}, f"{change}\n{changed}"
    assert code == (1 if differences else 0)
    assert not (change == "pass" and differences)


def previewed(run: EngineRun, code: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and differences."""
    folder = run.app.folder / "tomorrow"
    folder.mkdir()
    (folder / f"{run.app.module}.py").write_text(run.code(code))
    manifest = folder / "new.yaml"
    manifest.write_text(run.app.manifest.read_text())
    options = ("--against", str(run.app.manifest), "--master", "local[2]", "-o", "json", "-f", str(manifest))
    ended, said, errors = finished(run.app.command("preview", *options), 900.0)
    assert said, errors[-6000:]
    *differences, _ = map(json.loads, said.splitlines())
    return ended, differences


Results = list[tuple[bytes, bytes | None, int]]


def different(one: Results, other: Results, *, ordered: bool) -> set[str]:
    """The keys whose results are others; in another order, where that counts."""
    by_key: tuple[dict[bytes, list[Any]], ...] = {}, {}
    for results, found in zip((one, other), by_key, strict=True):
        for key, *rest in results:
            found.setdefault(key, []).append(tuple(rest))
    made = list if ordered else Counter
    first, second = by_key
    return {repr(key.decode()) for key in {*first, *second} if made(first.get(key, ())) != made(second.get(key, ()))}


def outcome(run: EngineRun, program: EngineProgram, code: str) -> dict[str, Results]:
    """The results of each topic, without a broker and without Spark."""
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - a program made here
    config = to_config(read_app(run.app.manifest)[0])
    inputs = {each: list(rows) for each, rows in program.inputs.items()}
    for each in program.ended:
        inputs[each].append(("end0", "end0", program.end_ms))
    with TopologyTestDriver(names["topology"](), config) as driver:
        to = {each: driver.create_input_topic(run.topics[each], _TEXT, _TEXT) for each in inputs}
        while any(inputs.values()):
            name = min((each for each in inputs if inputs[each]), key=lambda each: inputs[each][0][2])
            key, value, at = inputs[name].pop(0)
            to[name].pipe_input(key, value, timestamp_ms=at)
        return {
            topic: [(each.key, each.value, each.timestamp) for each in read(driver, topic)]
            for topic in driver.produced_topic_names
        }


def read(driver: TopologyTestDriver, topic: str) -> list[Any]:
    return driver.create_output_topic(topic, _RAW, _RAW).read_records()
