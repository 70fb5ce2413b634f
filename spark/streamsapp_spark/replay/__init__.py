"""The replay of tasks over their history, in Spark's Python workers."""
