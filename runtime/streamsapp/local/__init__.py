"""What development and tests need on one machine: a real Apache Kafka broker, started from its jars.

Used by ``streamsapp local``, by the demo and by the tests; never by a running instance.
"""
