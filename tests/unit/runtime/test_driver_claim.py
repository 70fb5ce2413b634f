"""A driver that cannot reach the brokers does not know whether it is the right one. It connects to a dead address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from streamsapp.brokers.errors import UnreachableError
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StreamsError
from streamsapp.runtime.micro_batches import lanes
from streamsapp.runtime.micro_batches.lanes import DriverClaim


@pytest.fixture
def claim(monkeypatch: pytest.MonkeyPatch) -> Iterator[DriverClaim]:
    monkeypatch.setattr(lanes, "_RETRY", 0.01)
    with closing(DriverClaim(StreamsConfig(application_id="app", bootstrap_servers="127.0.0.1:1"))) as made:
        yield made


def test_silence_is_no_consent(claim: DriverClaim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_PATIENCE", 0.1)
    assert claim.held()
    with pytest.raises(StreamsError, match="which driver is the right one is not known"):
        claim.proven()


@pytest.mark.parametrize(("holder", "proven"), [((7, 1), True), ((7, 2), False), (None, True)])
def test_the_answer_is_waited_for(
    claim: DriverClaim, monkeypatch: pytest.MonkeyPatch, holder: tuple[int, int] | None, proven: bool
) -> None:
    silent = [UnreachableError("no answer")] * 3

    async def answer() -> tuple[int, int] | None:
        if silent:
            raise silent.pop()
        return holder

    monkeypatch.setattr(claim, "_mine", (7, 1))
    monkeypatch.setattr(claim, "_holder", answer)
    assert claim.proven() is proven
    assert not silent
