"""Remote state of one instance: its tasks' snapshots, and the tasks that begin with one, on threads of their own."""
