"""A real Apache Kafka broker for development and tests on one machine, started from its jars.

Used by ``streamsapp local``, by the demo and by the tests; never by a running instance.
"""
