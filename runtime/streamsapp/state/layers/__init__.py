"""The layers of one store above its engine: what was read or written lately, and how queries look in."""
