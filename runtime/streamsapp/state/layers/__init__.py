"""The layers of one store above its engine: entries that were read or written lately, and views for queries."""
