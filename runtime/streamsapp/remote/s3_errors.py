"""Translates errors of boto3: whether another try may help, and the message for the user.

Called by ``S3Store``; pure.
"""

from __future__ import annotations

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError as OutOfReachError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ResponseStreamingError,
    SSLError,
)
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError, NameResolutionError

from streamsapp.remote.object_store import (
    ObjectDamagedError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStoreError,
    UnfitObjectStoreError,
)

#: The errors of boto3. It lets some of urllib3's through while a body is read.
CLIENT_ERRORS: tuple[type[Exception], ...] = (BotoCoreError, ClientError, HTTPError)

_CREDENTIALS = "correct the credentials"
_PERMISSIONS = (
    "the credentials need s3:GetObject, s3:PutObject, s3:DeleteObject, s3:ListBucket and s3:AbortMultipartUpload on it"
)

#: The meaning of the server's final refusals, and the remedy.
_REFUSALS = {
    "NoSuchBucket": ("the bucket does not exist", "create it, or correct remote_state.url"),
    "InvalidBucketName": ("the bucket's name is not allowed", "correct remote_state.url"),
    "AccessDenied": ("access is denied", _PERMISSIONS),
    "InvalidAccessKeyId": ("the server does not know the access key", _CREDENTIALS),
    "XAdminUserNotFound": ("the server does not know the access key", _CREDENTIALS),  # Versity S3 Gateway
    "SignatureDoesNotMatch": ("the secret key does not belong to the access key", _CREDENTIALS),
    "InvalidToken": ("the session token is not valid", _CREDENTIALS),
    "ExpiredToken": ("the session token has expired", "renew it; a secret's files are read at every request"),
    "RequestTimeTooSkewed": ("this machine's clock and the server's are too far apart", "set the clock"),
    "AuthorizationHeaderMalformed": ("the server expects another region", "set remote_state.region to the bucket's"),
    "PermanentRedirect": ("the bucket is in another region", "set remote_state.region and endpoint to the bucket's"),
    "NotImplemented": (
        "the server lacks what was asked",
        "use a store with conditional writes (If-None-Match) and multipart uploads",
    ),
}

_TRANSIENT_CODES = {
    "ConditionalRequestConflict", "InternalError", "OperationAborted", "RequestTimeout", "RequestTimeoutException",
    "SlowDown", "ServiceUnavailable", "ThrottlingException", "TooManyRequests",
}  # fmt: skip
_THROTTLED_CODES = {"SlowDown", "ThrottlingException", "TooManyRequests"}
_TRANSIENT_STATUSES = {408, 409, 429, 500, 502, 503, 504}

_TRANSIENT = (
    OutOfReachError, HTTPClientError, IncompleteReadError, ResponseStreamingError, ResponseParserError, HTTPError
)  # fmt: skip

#: Parts of what OpenSSL says when trying again cannot help.
_UNTRUSTED = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "certificate verify failed", "wrong version number")


def is_throttled(error: Exception) -> bool:
    """Says whether the server asks for fewer requests."""
    return isinstance(error, ClientError) and (_code(error) in _THROTTLED_CODES or _status(error) == 429)


def is_transient(error: Exception) -> bool:
    """Says whether the same call may go through a moment later."""
    if isinstance(error, ClientError):
        return _code(error) in _TRANSIENT_CODES or _status(error) in _TRANSIENT_STATUSES
    if isinstance(error, SSLError):
        return not any(part in str(error) for part in _UNTRUSTED)
    return isinstance(error, _TRANSIENT)


def translated(error: Exception, verb: str, where: str, endpoint: str) -> ObjectStoreError:
    """The error to raise: ``where`` is the object or bucket as a URL, ``endpoint`` the server's."""
    doing = f"cannot {verb} {where} at {endpoint}"
    if isinstance(error, ClientError):
        return _refused(error, doing, where, verb)
    if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
        return UnfitObjectStoreError(
            f"{doing}: no credentials were found; mount a secret (spec.remoteState.secretRef), give the pod's service "
            f"account a role, or set the usual AWS variables: {error}"
        )
    if isinstance(error, SSLError) and not is_transient(error):
        return UnfitObjectStoreError(
            f"{doing}: the server's certificate is not trusted, or it speaks no TLS: {error}; give its authority in "
            "remote_state.ca_file (ca.crt of the secret), or correct the scheme of remote_state.endpoint"
        )
    if is_transient(error):
        reason = getattr(error, "kwargs", {}).get("error")
        if isinstance(reason, NameResolutionError):
            return ObjectStoreError(f"{doing}: its host name cannot be resolved; correct remote_state.endpoint or DNS")
        return ObjectStoreError(f"{doing}: it is out of reach: {error}; is it up, and may this machine connect to it?")
    return ObjectStoreError(f"{doing}: {error}")


def _refused(error: ClientError, doing: str, where: str, verb: str) -> ObjectStoreError:
    code, status = _code(error), _status(error)
    if code in _REFUSALS:
        meaning, remedy = _REFUSALS[code]
        return UnfitObjectStoreError(f"{doing}: {meaning} ({code}); {remedy}")
    if code == "PreconditionFailed" or status == 412:
        if verb == "read":
            return ObjectDamagedError(f"{where} was replaced while it was read")
        return ObjectExistsError(f"{where} exists already")
    if code == "InvalidRange" or status == 416:
        return ObjectDamagedError(f"{where} is shorter than it must be")
    if code in ("NoSuchKey", "404"):
        return ObjectMissingError(f"{where} does not exist")
    if status in (401, 403):
        return UnfitObjectStoreError(f"{doing}: access is refused ({code}); {_CREDENTIALS}, and {_PERMISSIONS}")
    message = error.response.get("Error", {}).get("Message", "")
    return ObjectStoreError(f"{doing}: the server answered {status} {code}: {message}")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
