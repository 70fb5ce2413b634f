"""Reasons why a broker has given no answer.

Raised on the threads of connections, and by the callers that wait for them.
"""

from __future__ import annotations


class UnreachableError(Exception):
    """There is no answer: whether the broker has got the request is not known."""


class NotSentError(UnreachableError):
    """The request was not sent: the broker has surely not got it."""


class RefusedError(NotSentError):
    """The broker refuses the credentials or certificates, or its own are refused; says what to do about it."""


class RefusedTlsError(RefusedError):
    """One side refuses the other's certificate, which may be renewed while the connection is tried again."""


class PausedError(NotSentError):
    """The broker was tried a moment ago in vain, and is not asked again at once: the error before says more."""
