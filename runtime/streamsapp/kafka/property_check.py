"""Asks the client which of its properties it would refuse, without making a client.

Called on the main thread, where a manifest is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaException, Producer, libversion

from streamsapp.config.client_keys import split_prefix
from streamsapp.config.client_properties import client_error

#: No client knows it, so that the client refuses this one at the latest, and is never made.
_REFUSED = "streamsapp.no.such.property"
#: Setting it would load the libraries.
_LOADS_CODE = "plugin.library.paths"


def refused_properties(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Returns each key that this client does not know, or whose value it does not take, with the reason."""
    for key, value in properties.items():
        bare = split_prefix(key)[1]
        fault = None if bare == _LOADS_CODE else _fault(bare, value)
        if fault is not None:
            yield key, f"{fault} (the client here is librdkafka {libversion()[0]})"


def _fault(key: str, value: str) -> str | None:
    try:
        Producer({key: value, _REFUSED: ""})
    except KafkaException as error:
        return None if _REFUSED in str(error) else str(client_error(error) or error)
    except (AttributeError, TypeError, ValueError) as error:
        return f"kafka property {key!r} was refused by the client: {error}; correct or remove it"
    raise AssertionError(f"the client takes {_REFUSED}")
