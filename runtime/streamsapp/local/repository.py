"""Says where Maven's artifacts come from: Maven Central, or the mirror that this machine has for it.

Called by the downloads of this package, on the caller's thread. A mirror comes from the environment, else from Maven's
own settings, with its credentials there. Their format is that of https://maven.apache.org/settings.html.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit
from xml.etree import ElementTree as ET

from streamsapp.errors import UserInputError

#: Names a repository that has what Maven Central has: ``https://``, with or without ``user:password@``, or ``file://``.
VARIABLE = "STREAMSAPP_MAVEN_MIRROR"
_CENTRAL = "https://repo.maven.apache.org/maven2"
_SCHEMES = ("https", "http", "file")
#: The patterns of ``mirrorOf`` that cover Maven Central, a repository elsewhere that is reached over HTTPS.
_PATTERNS_OF_CENTRAL = frozenset({"*", "central", "external:*"})


@dataclass(frozen=True)
class Repository:
    """A repository in the layout of Maven."""

    #: Without credentials and without a slash at its end.
    url: str
    #: The variable or the file that names it; empty for Maven Central.
    named_by: str = ""
    #: The value of the header of that name.
    authorization: str | None = field(default=None, repr=False)
    #: By scheme, as ``urllib`` takes them; ``None`` for those of the environment.
    proxies: Mapping[str, str] | None = field(default=None, repr=False)


def repository(settings: Path | None = None) -> Repository:
    """Returns the repository to fetch from. ``settings``: Maven's, ``~/.m2/settings.xml`` unless given.

    Raises ``UserInputError`` for a mirror that cannot be used, with the place that names it.
    """
    if named := os.environ.get(VARIABLE):
        return _named(named, VARIABLE)
    file = settings or Path.home() / ".m2" / "settings.xml"
    try:
        root = ET.parse(file).getroot()  # noqa: S314  # the user's own file, which Maven reads as well
    except FileNotFoundError:
        return Repository(_CENTRAL)
    except (ET.ParseError, OSError, ValueError) as error:
        raise UserInputError(
            f"{file}: Maven's settings cannot be read: {error}; correct the file, or name a repository in {VARIABLE}"
        ) from error
    return _of_settings(root, file)


def _of_settings(root: ET.Element, file: Path) -> Repository:
    mirrors = [each for each in root.findall("{*}mirrors/{*}mirror") if _covers_central(_text(each, "mirrorOf"))]
    if not mirrors:
        return Repository(_CENTRAL, proxies=_proxies(root, urlsplit(_CENTRAL)))
    mirror = min(mirrors, key=lambda each: _text(each, "mirrorOf") != "central")  # as in Maven, the exact one wins
    found = _named(_text(mirror, "url"), str(file))
    servers = [each for each in root.findall("{*}servers/{*}server") if _text(each, "id") == _text(mirror, "id")]
    authorization = _credentials(servers[0], file) if servers else found.authorization
    return Repository(found.url, found.named_by, authorization, _proxies(root, urlsplit(found.url)))


def _covers_central(mirror_of: str) -> bool:
    patterns = {each.strip() for each in mirror_of.split(",")}
    return "!central" not in patterns and not patterns.isdisjoint(_PATTERNS_OF_CENTRAL)


def _named(url: str, by: str) -> Repository:
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not (parts.netloc or parts.scheme == "file"):
        raise UserInputError(f"{by}: a repository has an address like https://host/path, got {url!r}")
    user = _basic(unquote(parts.username or ""), unquote(parts.password or "")) if parts.username else None
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path.rstrip("/"), query="", fragment="")
    return Repository(urlunsplit(plain), by, user)


def _credentials(server: ET.Element, file: Path) -> str | None:
    user, password = _text(server, "username"), _text(server, "password")
    if re.fullmatch(r"\{.*\}", password):
        raise UserInputError(
            f"{file}: the password of the server {_text(server, 'id')!r} is encrypted, and Maven alone can read it; "
            f"name the repository as https://user:password@host/path in {VARIABLE}"
        )
    return _basic(user, password) if user else None


def _proxies(root: ET.Element, target: SplitResult) -> Mapping[str, str] | None:
    """Returns the active proxy of Maven's settings for a repository; the environment's where there is none."""
    for proxy in root.findall("{*}proxies/{*}proxy"):
        if _text(proxy, "active") in ("", "true"):
            past = [each for each in re.split(r"[|,]", _text(proxy, "nonProxyHosts")) if each]
            if any(fnmatch(target.hostname or "", each) for each in past):
                return {}
            user, password = quote(_text(proxy, "username"), ""), quote(_text(proxy, "password"), "")
            credentials = f"{user}:{password}@" if user else ""
            return {target.scheme: f"http://{credentials}{_text(proxy, 'host')}:{_text(proxy, 'port') or 8080}"}
    return None


def _text(element: ET.Element, name: str) -> str:
    """Returns the text of a child, with ``${env.NAME}`` as the environment has it."""
    text = element.findtext(f"{{*}}{name}", "").strip()
    return re.sub(r"\$\{env\.([^}]+)\}", lambda found: os.environ.get(found[1], found[0]), text)


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
