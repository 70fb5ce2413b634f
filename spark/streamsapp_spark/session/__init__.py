"""The Spark session of a command: its Java process, its settings, its end, and the versions that workers share."""
