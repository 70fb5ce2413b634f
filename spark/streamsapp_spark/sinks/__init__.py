"""Tables beside the topics that an application writes (``spec.spark.sinks``): each committed record is a row, once."""
