"""The process that Spark forks its Python workers from: it has imported what each of them needs, once for all.

Spark starts it by its name (``spark.python.daemon.module``). It has no thread but its own when it forks, so nothing is
imported here that starts any, as numpy and pyarrow do. (Spark 4.0 itself imports numpy, which ends its threads first.)
"""

from __future__ import annotations

from pyspark import daemon

from streamsapp_spark.streaming import worker  # noqa: F401 - for its forks

if __name__ == "__main__":
    daemon.manager()
