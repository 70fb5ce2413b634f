"""The messages of Kafka's protocol that are not written by hand, one module for a request and its answer.

Pure types; ``brokers.codec`` reads and writes them, on the threads of connections. ``tools/kafka_messages.py`` made all
the others of this folder from Kafka's own schemas: change it, not them. ``brokers.request`` sends them.
"""
