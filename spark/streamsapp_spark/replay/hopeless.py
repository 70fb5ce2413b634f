"""The failures that another try does not mend. Used in Spark's Python workers."""

from __future__ import annotations

from streamsapp.errors import DeserializationError, ProcessingError, SerializationError, UserInputError

#: The same records would end the same.
HOPELESS = (UserInputError, DeserializationError, SerializationError, ProcessingError)
