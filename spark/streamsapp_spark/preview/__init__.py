"""``streamsapp preview``: compares two programs."""
