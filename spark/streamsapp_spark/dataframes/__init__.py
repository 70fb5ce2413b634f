"""Part of a PySpark program: a topology over streaming DataFrames.

``run_topology`` is called on the driver, by the user's program; the rest runs in Spark's Python workers. Neither Kafka
nor the command line is needed.
"""
