"""Runs one program on both sides, says where they differ, and shrinks a program that does to its essence.

Called by the tests of this folder, on the test's thread.
"""

from __future__ import annotations

import base64
import difflib
import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any
from unittest.mock import patch

from options import serde
from oracle import Oracle
from programs import build
from streamsapp import Serdes, StreamsConfig, Windowed
from streamsapp.errors import StreamsAppError
from streamsapp.record import Headers
from streamsapp.state.api import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from streamsapp.state.kinds.session import SessionType
from streamsapp.tasks.task_context import Execution
from streamsapp.testing import TestInputTopic, TopologyTestDriver

Program = dict[str, Any]
Outcome = dict[str, Any]
Run = Callable[[Program], Outcome]
Compared = Callable[[Program, Outcome], Outcome]

#: The id that both sides run a program by; the names of changelogs begin with it.
_APPLICATION = "app"
_EXTRACTOR = re.compile(r"\(extractor class: .*\)")


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _headers(event: dict[str, Any]) -> Headers | None:
    return [(name, _decoded(value)) for name, value in event.get("headers", [])] or None


class _DriverRun:
    """One program through our TopologyTestDriver; the answer has the form of the oracle's."""

    def __init__(self, program: Program, driver: TopologyTestDriver) -> None:
        self.program = program
        self.driver = driver
        self.inputs: dict[str, TestInputTopic] = {}

    def outcome(self) -> Outcome:
        outcome: Outcome = {}
        for index, event in enumerate(self.program["events"]):
            try:
                self._play(event)
            except StreamsAppError as error:
                outcome |= {"failed_at": index, "error": type(error).__name__, "message": str(error)}
                break
        outcome["outputs"] = {topic: self._read(topic) for topic in sorted(self.driver.produced_topic_names)}
        outcome["stores"] = {name: self._entries(name) for name in self._store_names()}
        return outcome

    def _play(self, event: dict[str, Any]) -> None:
        if "advance" in event:
            self.driver.advance_wall_clock_time(event["advance"])
            return
        topic = event["topic"]
        if topic not in self.inputs:
            self.inputs[topic] = self.driver.create_input_topic(topic, Serdes.bytes(), Serdes.bytes())
        key, value = (self._bytes(event, side) for side in ("key", "value"))
        self.inputs[topic].pipe_input(key, value, event["ts"], _headers(event))

    def _bytes(self, event: dict[str, Any], side: str) -> bytes | None:
        if f"{side}_raw" in event:
            return _decoded(event[f"{side}_raw"])
        value = event[side]
        return None if value is None else serde(self.program["inputs"][event["topic"]][side]).serialize(value)

    def _read(self, topic: str) -> list[dict[str, Any]]:
        return [
            {
                "key": _encoded(record.key),
                "value": _encoded(record.value),
                "ts": record.timestamp if record.timestamp >= 0 else None,
                "headers": [[name, _encoded(value)] for name, value in record.headers],
            }
            for record in self.driver.create_output_topic(topic, Serdes.bytes(), Serdes.bytes()).read_records()
        ]

    def _store_names(self) -> list[str]:
        """Every store a program names, wherever it does."""
        steps = self.program["steps"]
        named = [step["materialized"].get("name") for step in steps if "materialized" in step]
        added = [step["name"] for step in steps if step["op"] == "store"]
        added += [step[part]["name"] for step in steps for part in ("store", "brings") if part in step]
        return sorted({*added, *filter(None, named)})

    def _entries(self, name: str) -> list[list[Any]]:
        return [
            [
                {"key": key.key, "start": key.start_ms, "end": key.end_ms} if isinstance(key, Windowed) else key,
                shown_value(value),
            ]
            for key, value in _all(self.driver.get_state_store(name))
        ]


def shown_value(value: Any) -> Any:
    """A value of a store with its time, and with the headers that it has."""
    if isinstance(value, AggregationWithHeaders):
        return {"value": value.aggregation, "headers": _shown_headers(value.headers)}
    if not isinstance(value, ValueAndTimestamp):
        return value
    shown = {"value": value.value, "timestamp": value.timestamp}
    return shown | ({"headers": _shown_headers(value.headers)} if isinstance(value, ValueTimestampHeaders) else {})


def _shown_headers(headers: Headers) -> list[list[str | None]]:
    return [[name, _encoded(value)] for name, value in headers]


def _all(store: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry, in the order of the store; a versioned store has no such form of reading."""
    for form in ("all", "fetch_range"):
        if hasattr(store, form):
            return iter(getattr(store, form)(*([] if form == "all" else [None, None])))
    return iter(())


def handlers(program: Program) -> dict[str, Any]:
    """Settings of ``StreamsConfig`` that say whether a program goes on after a record that fails."""
    handler = "continue" if program.get("survives") else "fail"
    return {"deserialization_exception_handler": handler, "processing_exception_handler": handler}


def run_here(program: Program, **settings: Any) -> Outcome:
    """Returns the outcome of a program in streamsapp, with further settings of ``StreamsConfig``."""
    settings = handlers(program) | settings
    config = StreamsConfig(application_id=_APPLICATION, bootstrap_servers="unused:9092", **settings)
    cached, combines = program.get("cache", False), program.get("combines", False)
    execution = Execution(0, asks_again=False, combines=combines, without_caches=not cached)
    try:
        topology = build(program)
        with patch("streamsapp.testing.driver.record_by_record", lambda: execution):
            driver = TopologyTestDriver(topology, config)
    except StreamsAppError as error:
        return {"error": type(error).__name__, "message": str(error)}
    with driver:
        return _DriverRun(program, driver).outcome() | {"describe": str(topology.describe())}


def run_as_instances(program: Program) -> Outcome:
    """Returns the outcome of a program as instances and engines have it, which do what Kafka Streams does with its
    caches where that can be told apart."""
    return run_here(program | {"cache": True})


def describe_here(program: Program) -> str:
    """Our description of a program, or why there is none."""
    try:
        return str(build(program).describe())
    except StreamsAppError as error:
        return f"{type(error).__name__}: {error}"


def _masked(description: str) -> str:
    """Functions have other names on the other side."""
    return _EXTRACTOR.sub("(extractor class: ...)", description)


def _diff(theirs: list[str], ours: list[str]) -> str:
    return "\n".join(difflib.unified_diff(theirs, ours, "Kafka Streams", "streamsapp", lineterm="", n=3))


def _unmoved(program: Program) -> Program | None:
    """Returns the program without optimisations, if Kafka Streams may move a repartition topic above what changes keys
    or values there (docs/departures.md)."""
    shared = {step.get("id") for step in program["steps"] if step["op"] == "global_table"} - {None}
    changing = any(
        step["op"] in ("process", "process_values") or step.get("with") in shared for step in program["steps"]
    )
    return {**program, "optimize": False} if changing and program.get("optimize") else None


def description_difference(oracle: Oracle, program: Program) -> str | None:
    """Returns where the two descriptions differ; ``None`` also for a program that Kafka Streams refuses."""
    difference, unmoved = _description_difference(oracle, program), _unmoved(program)
    return difference if difference is None or unmoved is None else _description_difference(oracle, unmoved)


def _description_difference(oracle: Oracle, program: Program) -> str | None:
    answer = oracle.ask(kind="describe", **program)
    if "error" in answer:
        return None
    theirs, ours = _masked(answer["describe"]), _masked(describe_here(program))
    return None if theirs == ours else _diff(theirs.split("\n"), ours.split("\n"))


def _last_per_key(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the content of a compacted topic; a commit may leave out records that a later one of it overwrites."""
    last = {record["key"]: record for record in records}
    return sorted(last.values(), key=json.dumps)


def _session_changelogs(program: Program) -> set[str]:
    """The changelogs of a program's session stores, also of those whose names are made up."""
    stores = (store for part in build(program).sub_topologies() for store in part.stores)
    return {f"{_APPLICATION}-{store.name}-changelog" for store in stores if isinstance(store.type, SessionType)}


def _forget_sessions_that_came_and_went(program: Program, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Leaves out of their changelogs the sessions that began and ended within one commit, where ours never had them
    (docs/departures.md)."""
    for topic in _session_changelogs(program) & theirs.keys():
        records, known = theirs[topic], {each["key"] for each in ours.get(topic, ())}
        put = {each["key"] for each in records if each["value"] is not None}
        gone = {each["key"] for each in _last_per_key(records) if each["value"] is None} & put - known
        theirs[topic] = [each for each in records if each["key"] not in gone]


def _lines(outcome: Outcome, stores: list[str]) -> list[str]:
    """An outcome in lines: one for each record, entry and failure."""
    lines = []
    if "error" in outcome:
        lines.append(f"failed at event {outcome.get('failed_at')}")
    for topic, records in sorted(outcome.get("outputs", {}).items()):
        shown = _last_per_key(records) if topic.endswith("-changelog") else records
        lines += [f"topic {topic}: {_shown(record)}" for record in shown]
    lines += [
        f"store {name}: {json.dumps(entry)}" for name in stores for entry in outcome.get("stores", {}).get(name, ())
    ]
    return lines


def _shown(record: dict[str, Any]) -> str:
    key, value = (_decoded(record[side]) for side in ("key", "value"))
    return f"key {key!r} value {value!r} at {record['ts']} headers {record['headers']}"


def _whole(program: Program, outcome: Outcome) -> Outcome:
    """All of an outcome is compared."""
    return outcome


def outcome_difference(
    oracle: Oracle, program: Program, run: Run = run_here, compared: Compared = _whole
) -> str | None:
    """Returns where records, times, order or state differ; ``None`` also for a program that Kafka Streams refuses.
    ``run`` gives our outcome; ``compared`` leaves out of both what is known to differ."""
    difference, unmoved = _outcome_difference(oracle, program, run, compared), _unmoved(program)
    if difference is None or unmoved is None:
        return difference
    return _outcome_difference(oracle, unmoved, run, compared)


def _outcome_difference(oracle: Oracle, program: Program, run: Run, compared: Compared) -> str | None:
    theirs = oracle.ask(kind="run", **program)
    if "error" in theirs and "failed_at" not in theirs:
        return None
    theirs, ours = compared(program, theirs), compared(program, run(program))
    stores = sorted(ours.get("stores", {}))
    if "outputs" in ours:
        _forget_sessions_that_came_and_went(program, theirs["outputs"], ours["outputs"])
    their_lines, our_lines = _lines(theirs, stores), _lines(ours, stores)
    if their_lines == our_lines:
        return None
    sides = {"Kafka Streams": theirs, "streamsapp": ours}
    failures = [f"{name} failed: {each['error']}: {each['message']}" for name, each in sides.items() if "error" in each]
    return "\n".join([*failures, _diff(their_lines, our_lines)])


def _failing_sides(difference: str) -> set[str]:
    return {name for name in ("Kafka Streams", "streamsapp") if f"{name} failed: " in difference}


# ---- shrinking ---------------------------------------------------------------------------------------------------


def _references(step: dict[str, Any]) -> set[str]:
    """The ids, stores and nodes that a step needs."""
    found = {step[field] for field in ("of", "with", "processor") if field in step}
    return found | set(step.get("parents", ())) | set(step.get("stores", ())) | set(step.get("processors", ()))


def _names(step: dict[str, Any]) -> set[str]:
    branches = [*step.get("branches", ()), *([step["default"]] if "default" in step else [])]
    own = {step.get("id"), step.get("name"), step.get("materialized", {}).get("name")}
    return {name for name in own | {branch["id"] for branch in branches} if name is not None}


def _without_step(program: Program, index: int) -> Program:
    """The program without a step and without the steps that need it."""
    gone = _names(program["steps"][index])
    steps = program["steps"][:index]
    for step in program["steps"][index + 1 :]:
        if _references(step) & gone:
            gone |= _names(step)
        else:
            steps.append(step)
    return {**program, "steps": steps}


def _bypassed(program: Program, index: int) -> Program:
    """The program whose later steps build on the parent of a step instead of on the step."""
    step = program["steps"][index]
    text = json.dumps(program["steps"][index + 1 :]).replace(json.dumps(step["id"]), json.dumps(step["of"]))
    return {**program, "steps": program["steps"][:index] + json.loads(text)}


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with a little less in them, the boldest first."""
    events = program["events"]
    for size in (len(events) // 2, len(events) // 4, 1):
        for start in range(0, len(events), size or 1):
            yield {**program, "events": events[:start] + events[start + (size or 1) :]}
    for index in reversed(range(len(program["steps"]))):
        yield _without_step(program, index)
        step = program["steps"][index]
        if "of" in step and "id" in step:
            yield _bypassed(program, index)
        for option in ("name", "default"):
            if option in step and "of" in step:
                fewer = deepcopy(program)
                del fewer["steps"][index][option]
                yield fewer
        for part in ("consumed", "produced", "materialized", "grouped"):
            for option in set(step.get(part, {})) - {"key", "value"}:
                fewer = deepcopy(program)
                del fewer["steps"][index][part][option]
                yield fewer
    if program["optimize"]:
        yield {**program, "optimize": False}


def _reads_something(program: Program) -> bool:
    return any(step["op"] in ("stream", "table", "source", "global_table") for step in program["steps"])


def shrink(program: Program, differs: Callable[[Program], bool]) -> Program:
    """The smallest program found that still differs."""
    smallest = program
    start = 0
    while True:
        candidates = enumerate(_smaller(smallest))
        found = next(((at, each) for at, each in candidates if at >= start and _still(each, differs)), None)
        if found is not None:
            # A change that was tried in vain is not tried again before everything else was.
            start, smallest = found
        elif start:
            start = 0
        else:
            return smallest


def _still(program: Program, differs: Callable[[Program], bool]) -> bool:
    try:
        return _reads_something(program) and differs(program)
    except (LookupError, AttributeError, TypeError):
        return False  # cut apart in a way that makes no sense


def readable(program: Program) -> str:
    """A program to read, and to run by hand."""
    lines = [f"optimize: {program['optimize']}"]
    lines += ["  " + json.dumps(step) for step in program["steps"]]
    lines += ["  <- " + json.dumps(event) for event in program["events"]]
    return "\n".join(lines)


def report(oracle: Oracle, program: Program, difference: Callable[[Oracle, Program], str | None]) -> str | None:
    """``None`` where the sides agree, else the smallest program on which they do not, with both results."""
    found = difference(oracle, program)
    if found is None:
        return None
    failures = _failing_sides(found)

    def differs_alike(candidate: Program) -> bool:
        difference_now = difference(oracle, candidate)
        return difference_now is not None and _failing_sides(difference_now) == failures

    smallest = shrink(program, differs_alike)
    return f"{readable(smallest)}\n{difference(oracle, smallest)}"
