"""``kubectl streamsapp``: shows and steers applications from a terminal, with the rights of the user who types it.

Pure functions (``*_view``, ``progress``) make lines of documents; ``cluster`` and ``port_forward`` fetch the documents.
"""
