"""Wraps the processors of a task as ``processor_wrapper`` says (KIP-1112). The wrapper is given an operator of the DSL
as a processor, too.

Used by the wiring of a task, on the polling thread; records come on the processing thread. A task without a wrapper has
nothing of this.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from streamsapp.errors import TopologyError
from streamsapp.processor.api import Processor, ProcessorContext, ProcessorWrapper
from streamsapp.processor.operator import Operator
from streamsapp.record import Headers, Record
from streamsapp.tasks.processor_context import ChildPushes, NodeBinding


def wrapped(wrapper: ProcessorWrapper, node: str, processor: Processor) -> Processor:
    """Returns what the wrapper makes of a processor; raises ``TopologyError`` for what is none."""
    made = wrapper(node, processor)
    if not isinstance(made, Processor):
        raise TopologyError(
            f"processor_wrapper gave {type(made).__name__} for node {node}; it is called with (node_name, processor) "
            "and has to return a Processor: the one that it was given, or one that calls it"
        )
    return made


class OperatorProcessor(Processor):
    """An operator of the DSL as a processor: its results go through the context that it is begun with.

    The exception handler decides about an error of the user's function before the wrapper sees any of it: the operator
    has to complete what it does to its stores.
    """

    def __init__(self, operator: Operator, outside: NodeBinding) -> None:
        self._own = outside.user_context
        self._context: ProcessorContext = self._own
        #: The surroundings of the operator: those of its node, with the ways out through the context.
        children = {name: partial(self._send, name) for name in outside.children}
        self.binding = outside.over(ChildPushes(children), outside.late_answers)
        self.binding.forward = partial(self._send, None)
        operator.start(self.binding)
        self._push = operator.bind(self.binding)

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record) -> None:
        self._push(record.key, record.value, record.timestamp, record.headers or None)

    def _send(self, child: str | None, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        if self._context is self._own:
            self._own.push(child, key, value, timestamp, headers)
        else:
            self._context.forward(Record(key, value, timestamp, headers), child)
