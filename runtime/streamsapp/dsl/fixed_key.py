"""Keeps a user's processor from changing keys: what ``process_values`` promises to whatever groups by the key later.

Wraps the processor when a task is created, on the polling thread; runs on a processing thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamsapp.errors import TopologyError
from streamsapp.processor.api import Processor, ProcessorContext
from streamsapp.record import Record
from streamsapp.state.api import StoreBuilder
from streamsapp.topology.suppliers import check_supplier, supplied_stores


class FixedKeySupplier:
    """Makes the processors of a supplier, each held to the key of the record that it processes."""

    def __init__(self, node_name: str, supplier: Callable[[], Processor]) -> None:
        check_supplier(node_name, supplier)
        self._node_name = node_name
        self._supplier = supplier

    def __call__(self) -> Processor:
        return _FixedKeyProcessor(self._node_name, self._supplier())

    def stores(self) -> Iterable[StoreBuilder]:
        """The stores that the wrapped supplier brings along."""
        return supplied_stores(self._supplier)


class _FixedKeyProcessor(Processor):
    def __init__(self, node_name: str, processor: Processor) -> None:
        self._node_name = node_name
        self._processor = processor
        self._key: Any = None

    def init(self, context: ProcessorContext) -> None:
        self._forward = context.forward
        self._processor.init(_FixedKeyContext(context, self._forward_checked))

    def process(self, record: Record) -> None:
        self._key = record.key
        self._processor.process(record)

    def close(self) -> None:
        self._processor.close()

    def _forward_checked(self, record: Record, child: str | None = None) -> None:
        if record.key is not self._key and record.key != self._key:
            raise TopologyError(
                f"processor {self._node_name} runs in process_values and forwards the key {record.key!r} for a record "
                f"of key {self._key!r}; use process to change keys"
            )
        self._forward(record, child)


class _FixedKeyContext:
    """The processor's context with another ``forward``."""

    def __init__(self, context: ProcessorContext, forward: Callable[[Record, str | None], None]) -> None:
        self._context = context
        self._checked = forward

    def forward(self, record: Record, child: str | None = None) -> None:
        self._checked(record, child)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)
