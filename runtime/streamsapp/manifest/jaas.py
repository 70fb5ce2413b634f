"""Reads Java's way of writing a login, as Strimzi has it in the Secret of a user (``sasl.jaas.config``), as the
properties of other clients. Pure; called for mounted secrets."""

from __future__ import annotations

import re

from streamsapp.errors import ManifestError

#: Of each login module: the mechanism it is for. Strimzi's users of SCRAM have SHA-512.
_MECHANISMS = {"ScramLoginModule": "SCRAM-SHA-512", "PlainLoginModule": "PLAIN"}
_MODULE = re.compile(r"\s*([A-Za-z0-9_.$]{1,200})\s+(?:required|requisite|sufficient|optional)\b", re.IGNORECASE)
_OPTION = re.compile(
    r"""\s*([A-Za-z0-9_.-]{1,100})\s*=\s*(?:"((?:[^"\\]|\\.)*+)"|'((?:[^'\\]|\\.)*+)'|([^\s"';]++))""", re.DOTALL
)
_END = re.compile(r"\s*;?\s*\Z")


def login_properties(text: str) -> dict[str, str]:
    """Returns user name, password and mechanism of a login by SCRAM or PLAIN. Raises ``ManifestError`` for any other;
    its message has nothing of the text, which is a secret."""
    module = _MODULE.match(text)
    mechanism = None if module is None else _MECHANISMS.get(module[1].rpartition(".")[2])
    options: dict[str, str] = {}
    at = 0 if module is None else module.end()
    while module is not None and (option := _OPTION.match(text, at)) is not None:
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        at = option.end()
    if mechanism is None or not {"username", "password"} <= options.keys() or _END.match(text, at) is None:
        fault = "the file sasl.jaas.config is no login by SCRAM or PLAIN with username and password"
        remedy = "put these into files named sasl.username and sasl.password instead"
        raise ManifestError([f"spec.kafka.secretRef: {fault}; {remedy}"])
    return {
        "sasl.mechanism": mechanism,
        "sasl.username": options["username"],
        "sasl.password": options["password"],
    }
