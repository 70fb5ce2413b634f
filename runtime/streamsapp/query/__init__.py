"""Interactive queries: reading the stores of an application from outside of its topology."""

from streamsapp.query.api import KeyQueryMetadata, Staleness
from streamsapp.query.service import Queries

__all__ = ["KeyQueryMetadata", "Queries", "Staleness"]
