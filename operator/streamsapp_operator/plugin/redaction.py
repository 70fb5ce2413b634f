"""Takes secrets out of what a report has. Pure.

Two nets: the values of the Secrets that the application refers to, as far as the user may read them, wherever they
stand; and whatever looks like a secret by its form or by the name in front of it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

REDACTED = "<redacted>"
#: Shorter values are words of configurations.
_SHORTEST = 4
#: Values of Kafka Secrets that are none.
_WORDS = frozenset(
    {"PLAIN", "PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "true",
     "false", "none", "https"}
)  # fmt: skip
_NAME = (
    r"[\w.\-]*(?:passw|passphrase|passwd|pwd|pass\b|secret|token|api[_-]?key|access[_-]?key|credential|jaas"
    r"|private[_-]?key|user\.info)[\w.\-]*"
)
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
#: Fields of Kubernetes that name a Secret, or say whether there is one.
_NAMES_ONE = re.compile(r"(?:Ref|Refs|Name|Secrets?|Mode|KeyRef)$")
_FORMS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE)
_USER_OF_URL = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s\"'@]+@", re.IGNORECASE)
_SIGNED = re.compile(r"(X-Amz-(?:Signature|Credential|Security-Token)=)[^&\s\"']+", re.IGNORECASE)
_PAIR = re.compile(
    rf"""({_NAME})(\\?["']?\s*[:=]\s*)(\\?"(?:[^"\\]|\\.)*?\\?"|'[^']*'|[^\s,;"'}}{{\[]+)""", re.IGNORECASE
)
_NOT_TOLD = ("kubectl.kubernetes.io/last-applied-configuration",)


class Redactor:
    """Takes secrets out of texts and documents."""

    def __init__(self, values: Iterable[str]) -> None:
        """Takes the values that are known to be secrets."""
        forms = {form for value in values for form in _forms_of(value)}
        # The longest first: one value may be a part of another.
        known = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def known(self, text: str) -> str:
        """Returns a text without the values that are known."""
        return text if self._known is None else self._known.sub(REDACTED, text)

    def text(self, text: str) -> str:
        """Returns a text without secrets."""
        text = self.known(text)
        for form in _FORMS:
            text = form.sub(REDACTED, text)
        text = _BEARER.sub(rf"\1 {REDACTED}", text)
        text = _USER_OF_URL.sub(rf"\1{REDACTED}@", text)
        text = _SIGNED.sub(rf"\1{REDACTED}", text)
        return _PAIR.sub(_pair, text)

    def document(self, document: Any) -> Any:
        """Returns a document of Kubernetes, or of a pod, without secrets and without what repeats it."""
        match document:
            case dict():
                return {key: self._field(key, value, document) for key, value in document.items() if _is_told(key)}
            case list():
                return [self.document(each) for each in document]
            case str():
                return self.text(document)
            case _:
                return document

    def _field(self, key: str, value: Any, parent: dict[str, Any]) -> Any:
        if key == "files" and isinstance(value, dict):  # the user's code
            return {name: f"<{len(str(text))} characters left out>" for name, text in value.items()}
        name = parent.get("name") if key == "value" else key
        if isinstance(value, str) and isinstance(name, str) and _is_secret(name):
            return REDACTED
        return self.document(value)


def _is_told(key: str) -> bool:
    return key != "managedFields" and key not in _NOT_TOLD


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None and _NAMES_ONE.search(name) is None


def _pair(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{REDACTED}" if _is_secret(found[1]) else found[0]


def _forms_of(value: str) -> Iterator[str]:
    """Yields a value, its lines, and what becomes of them in JSON, base64 and URLs."""
    for part in {value.strip(), *(line.strip() for line in value.splitlines())}:
        if len(part) < _SHORTEST or part in _WORDS or part.startswith("-----"):
            continue
        yield part
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield quote(part, safe="")
    if len(value) >= _SHORTEST and value.strip() not in _WORDS:
        for text in (value, value.strip()):
            yield base64.b64encode(text.encode()).decode().rstrip("=")
