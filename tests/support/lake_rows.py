"""Prints the places, keys and values of a table of records as JSON, read by Spark with the settings given.

Run by tests in a process of its own: ``python lake_rows.py TABLE KEY=VALUE…``.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    table, *conf = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for name, _, value in (each.partition("=") for each in conf):
        builder = builder.config(name, value)
    rows = builder.getOrCreate().table(table).select("partition", "offset", "key", "value").collect()
    print(json.dumps([row.asDict() for row in rows]))


if __name__ == "__main__":
    main()
