"""The options of a sink as Spark's writers read them. Used on the driver's main thread."""

from __future__ import annotations

from streamsapp.manifest.model import SinkSpec


def writer_options(sink: SinkSpec) -> dict[str, str]:
    """Returns the ``options`` of the manifest."""
    return {name: _text(of) for name, of in sink.options.items()}


def _text(value: object) -> str:
    """As Spark reads options."""
    return str(value).lower() if isinstance(value, bool) else str(value)
