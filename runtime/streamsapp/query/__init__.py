"""Interactive queries: reading the stores of an application from outside of its topology."""

from streamsapp.query.api import KeyQueryMetadata, Staleness
from streamsapp.query.queries import Queries

__all__ = ["KeyQueryMetadata", "Queries", "Staleness"]
