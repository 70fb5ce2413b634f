"""``engine: spark``: the application as a Structured Streaming query.

    driver      plans batches, and hands out their lanes                            engine.py, dispatcher.py
    Spark       a micro-batch of a streaming source; its partitions pull lanes      source.py
    workers     run the lanes with the runtime's own task code                      worker.py

Workers ask the driver for lanes over a connection of their own (``channel``), as Spark does not say which worker gets
which partition: so a task goes on where its stores are open.
"""
