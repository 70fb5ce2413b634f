"""The ``StreamsApp`` manifest: its structure, reading it, and what it means for a runtime instance."""

from streamsapp.manifest.load import decode, load
from streamsapp.manifest.model import API_VERSION, KIND, StreamsApp

__all__ = ["API_VERSION", "KIND", "StreamsApp", "decode", "load"]
