"""The ``streamsapp`` command."""
