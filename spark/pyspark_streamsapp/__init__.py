"""Found by Spark because of its name: makes ``spark.read.format("streamsapp")`` known without being registered."""

from streamsapp_spark.datasource import StreamsAppDataSource as DefaultSource

__all__ = ["DefaultSource"]
