"""A table that is made the state of a store."""
