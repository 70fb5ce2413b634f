"""Snapshots of tasks: chosen, brought here, compared and published."""
