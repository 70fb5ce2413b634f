"""An application on its way from the driver to Spark's Python workers; that of a Python program is pickled.

Made on the driver; loaded in workers, where user code is imported or unpickled then.
"""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Any, Protocol

from pyspark.cloudpickle import CloudPickler

from streamsapp.config import StreamsConfig
from streamsapp.errors import ConfigError
from streamsapp.native import NumberReader, NumberWriter
from streamsapp.serdes.api import Serde, is_ours
from streamsapp.serdes.serdes import Serdes
from streamsapp.serdes.typed import PydanticSerde
from streamsapp.topology.builder import Topology


class ShippedProgram(Protocol):
    """Plain data that an application is made of again; it can be hashed."""

    def load(self) -> tuple[Topology, StreamsConfig]:
        """Makes topology and configuration. Raises ``UserInputError`` for user code that is not what the driver had."""
        ...


@dataclass(frozen=True)
class PickledProgram:
    """Topology and configuration, pickled: functions of the program itself by their code, those of modules by name."""

    pickled: bytes

    @classmethod
    def of(cls, topology: Topology, config: StreamsConfig) -> PickledProgram:
        """Raises ``ConfigError`` for what cannot be sent to executors."""
        buffer = io.BytesIO()
        try:
            _Pickler(buffer).dump((topology, config))  # type: ignore[no-untyped-call]
        except Exception as error:
            raise ConfigError(
                f"the topology or its settings cannot be sent to executors: {error}; make what cannot be pickled "
                "(clients, locks, files) in a processor's init()"
            ) from error
        return cls(buffer.getvalue())

    def load(self) -> tuple[Topology, StreamsConfig]:
        loaded: tuple[Topology, StreamsConfig] = pickle.loads(self.pickled)  # noqa: S301 - the driver wrote it
        return loaded


def _anew(made: NumberReader | NumberWriter) -> tuple[Any, ...]:
    return partial(type(made), size=made.size, otherwise=made.otherwise), ()


def _serde(serde: Serde[Any]) -> Any:
    """Makes typed serdes anew where they arrive: the readers and writers that they are made of are not pickled."""
    fields = None if serde.plain is None else serde.plain.fields
    if serde is Serdes.json() or serde is Serdes.msgpack():
        return (Serdes.json if serde is Serdes.json() else Serdes.msgpack), ()
    make = _TYPED.get(serde.name.partition("(")[0])
    if make is None or fields is None or not is_ours(serde.serialize):
        return serde.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    return make, (fields,)


_TYPED: dict[str, Callable[[Any], Serde[Any]]] = {
    "json": Serdes.json,
    "msgpack": Serdes.msgpack,
    "protobuf": Serdes.protobuf,
}


class _Pickler(CloudPickler):
    """Takes what serdes of numbers are made of, and serdes of a user's types, too."""

    dispatch_table = ChainMap(  # noqa: RUF012 - it is read when a pickler is made
        {
            Struct: lambda packer: (Struct, (packer.format,)),
            NumberReader: _anew,
            NumberWriter: _anew,
            Serde: _serde,
            PydanticSerde: _serde,
        },
        CloudPickler.dispatch_table,
    )
