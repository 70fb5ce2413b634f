"""Stores as tables, as their snapshots have them."""
