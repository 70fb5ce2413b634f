"""``KStream.print``: writes records as lines of text.

Bound on the polling thread; pushed on a processing thread. Tasks that print to one path share the file: each line is
one write.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from streamsapp.dsl.java_values import java_value
from streamsapp.dsl.operators.stateless import ForEach
from streamsapp.processor.operator import NodeContext, Operator, Push


def _key_and_value(key: Any, value: Any) -> str:
    return f"{java_value(key)}, {java_value(value)}"


@dataclass
class Print(Operator):
    """Writes ``[label]: key, value``, or the mapper's text in place of key and value."""

    label: str
    mapper: Callable[[Any, Any], str] | None
    path: str | None
    _file: TextIO | None = field(default=None, init=False)

    def start(self, context: NodeContext) -> None:
        if self.path is not None:
            self._file = Path(self.path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed with the task

    def bind(self, context: NodeContext) -> Push:
        prefix, text, file = f"[{self.label}]: ", self.mapper or _key_and_value, self._file
        if file is None:
            return ForEach(lambda key, value: sys.stdout.write(f"{prefix}{text(key, value)}\n")).bind(context)
        return ForEach(lambda key, value: file.write(f"{prefix}{text(key, value)}\n")).bind(context)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
