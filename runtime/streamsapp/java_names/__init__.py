"""Answers Kafka Streams' own names with the ones that are used here.

``lookup`` is what classes are marked with, ``table`` has the names that have another form here. Everything runs where a
name is not found, on the thread that asked for it; what is there costs nothing.
"""
