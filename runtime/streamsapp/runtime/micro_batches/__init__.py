"""Tasks that are run a micro-batch at a time, by a driver's order: what an engine such as Spark needs of the runtime.

An instance decides for itself what it reads and when it commits. Here a driver decides: it plans which tasks read how
far (``planning``), and processes that it does not know beforehand run the tasks (``process``) and report what they did.
The tasks, their stores, changelogs, snapshots and committed offsets are those of an instance. A process runs its lanes
on one thread.
"""
