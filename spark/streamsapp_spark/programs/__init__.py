"""A user's program on its way from the driver to Spark's Python workers."""
