"""The data pipeline on Spark: topic history into snapshots (``bootstrap``), snapshots into DataFrames
(``spark.read.format("streamsapp")``), and one checked against the other (``audit``).

Reached from the command line by name, never imported by the runtime; programs of users' import ``run_topology``. Spark
schedules, shuffles and retries; what runs in its Python workers is the runtime's own task code on its own stores.
"""

from streamsapp_spark.dataframes.frames import run_topology

__all__ = ["run_topology"]
