"""Remote state: snapshots of tasks' stores in an object store, from which an instance with an empty disk starts."""
