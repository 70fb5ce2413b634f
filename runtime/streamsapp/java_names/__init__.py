"""Answers Kafka Streams' own names with the ones that are used here.

Classes are marked with ``lookup``; ``classes``, ``members`` and ``properties`` have the names. A name that is not found
is looked up on the thread that asked for it; names that are there cost nothing.
"""
