"""A windowed application changes hands while windows are open: each final result comes once, and is complete."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from finals import Seconds
from instances import Instances, eventually
from jvm import Jvm
from kafka_cluster import Kafka
from killable import window_finals


@pytest.mark.long
@pytest.mark.parametrize("state", ["wiped", "kept"])
@pytest.mark.parametrize("form", ["default", "headers"])
def test_windows_that_are_open_survive_a_takeover_by_the_jvm_and_back(
    kafka: Kafka, instances: Instances, start_jvm: Callable[..., Jvm], guarantee: str, form: str, state: str
) -> None:
    """With stores that keep headers (KIP-1285), too: Kafka Streams then logs headers of old values with what waits."""
    seconds = Seconds(kafka, headers=[("x", b"1"), ("y", None)])
    config = instances.config(processing_guarantee=guarantee, dsl_store_format=form)
    topology = window_finals(seconds.source, seconds.sink)

    seconds.go_on(4_500)
    ours = instances.start(topology, config)
    # The fifth second is half over in both partitions.
    eventually(lambda: seconds.closed(4 * 40))
    assert ours.close()

    seconds.go_on(4_000)
    theirs = start_jvm((seconds.source, seconds.sink), config, "Finals", {"dsl.store.format": form.upper()})
    assert theirs.description == topology.describe().to_text()
    eventually(lambda: theirs.assert_running() and seconds.closed(8 * 40))
    theirs.close()

    if state == "wiped":
        shutil.rmtree(config.state_dir)
    seconds.go_on(4_000)
    seconds.end()
    ours = instances.start(window_finals(seconds.source, seconds.sink), config)
    eventually(seconds.is_told)
    assert ours.close()
    seconds.check()
    assert all(each.headers() == [("x", b"1"), ("y", None)] for each in kafka.read(seconds.sink))
