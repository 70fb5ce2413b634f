"""``kubectl streamsapp``: shows and steers applications from a terminal, with the rights of whoever types it.

What is shown is made of documents by pure functions (``*_view``, ``progress``); ``cluster`` and ``forward`` fetch them.
"""
