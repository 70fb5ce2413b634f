"""Committed entries: RocksDB below its backlog, or memory."""
