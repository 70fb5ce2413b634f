"""One application of two queries: one forwards the records that come, one works off a backlog.

Started by ``priorities.py``, which measures it from outside.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks.topics import PREFIX

from streamsapp import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Scheduling,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    StreamsRuntime,
    Topology,
)

APPLICATION = f"{PREFIX}priorities"
FAST, FAST_OUT, BACKLOG, COUNTS = (f"{APPLICATION}-{name}" for name in ("fast", "fast-out", "backlog", "counts"))
TEXT = Serdes.string()
SCHEDULING = (
    Scheduling(source=FAST, scheduling_class="latency", weight=10),
    Scheduling(source=BACKLOG, scheduling_class="bulk"),
)


def topology() -> Topology:
    builder = StreamsBuilder()
    fast = builder.stream(FAST, Consumed(TEXT, TEXT))
    fast.map_values(lambda value: value.upper()).to(FAST_OUT, Produced(TEXT, TEXT))
    words = builder.stream(BACKLOG, Consumed(TEXT, TEXT)).map_values(lambda value: value.lower())
    counts = words.group_by_key(Grouped(key_serde=TEXT, value_serde=TEXT)).count(Materialized("counts"))
    counts.to_stream().to(COUNTS, Produced(TEXT, Serdes.long()))
    return builder.build()


def main(given: str) -> None:
    """Run it until it is killed; says how many records of the backlog are processed."""
    options = json.loads(given)
    config = StreamsConfig(
        application_id=options["application"],
        bootstrap_servers=options["servers"],
        processing_guarantee=options["guarantee"],
        commit_interval_ms=options["commit_ms"],
        threads=options["threads"],
        state_dir=Path(options["state"]),
        memory_bytes=1 << 30,
        scheduling=SCHEDULING if options["scheduled"] else (),
    )
    runtime = StreamsRuntime(topology(), config)
    runtime.start()
    while True:
        done = sum(each["processedRecords"] or 0 for each in runtime.tasks() if each["id"].startswith("1_"))
        print(json.dumps([time.monotonic(), done]), flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1])
