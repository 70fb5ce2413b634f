"""``streamsapp audit``: recomputes state and compares it with snapshots."""
