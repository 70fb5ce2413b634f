"""Text as Java reads and writes it: UTF-8 without errors, where each malformed sequence is U+FFFD and a lone surrogate
is a question mark; and the UUIDs that Java takes.

The functions run on processing threads, for every record of a serde of text that replaces, or of UUIDs; commands and
pages read UUIDs with them, too.
"""

from __future__ import annotations

import codecs
import unicodedata
import uuid

from streamsapp.serdes.api import PlainForm, Serde, identity

_REPLACEMENT = "\ufffd"
_JAVA = "streamsapp-java"


def replacing_string() -> Serde[str]:
    """Returns the serde of text whose errors are replaced. Other bytes are written than were read."""
    return Serde(_write, _read, True, "string", lambda text: _read(_write(text)), plain=PlainForm(_text, identity))


def _read(data: bytes) -> str:
    return data.decode("utf-8", _JAVA)


def _write(text: str) -> bytes:
    try:
        return str.encode(text)
    except UnicodeEncodeError:
        # Two surrogates may be one character, as they are in Java.
        pairs = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return pairs.encode("utf-8", "replace")


def _text(plain: str) -> str:
    if isinstance(plain, str):
        return plain
    raise TypeError(f"got {type(plain).__name__}, the serde is string")


def _as_java(error: UnicodeError) -> tuple[str, int]:
    """Python counts each byte of a surrogate that was encoded alone; for Java it is one malformed sequence."""
    assert isinstance(error, UnicodeDecodeError)
    found = error.object[error.start : error.start + 3]
    if len(found) < 2 or found[0] != 0xED or not 0xA0 <= found[1] <= 0xBF:
        return _REPLACEMENT, error.end
    return _REPLACEMENT, error.start + (3 if len(found) == 3 and 0x80 <= found[2] <= 0xBF else 2)


codecs.register_error(_JAVA, _as_java)

_UUID_LENGTH = 36
_MAX_LONG = (1 << 63) - 1
_UUID_BITS = (32, 16, 16, 16, 48)


def java_uuid(text: str) -> uuid.UUID:
    """Returns the UUID that ``UUID.fromString`` reads: five numbers in base 16 with hyphens between them; only their
    lowest bits count. Raises ``ValueError`` for any other text."""
    parts = text.split("-")
    if len(parts) != len(_UUID_BITS) or len(text.encode("utf-16-le", "surrogatepass")) > 2 * _UUID_LENGTH:
        raise ValueError(f"{text!r:.100} is not a UUID such as 123e4567-e89b-12d3-a456-426614174000")
    bits = 0
    for part, size in zip(parts, _UUID_BITS, strict=True):
        bits = bits << size | _from_hex(text, part) & ((1 << size) - 1)
    return uuid.UUID(int=bits)


def _from_hex(text: str, part: str) -> int:
    number = 0
    digits = part.removeprefix("+")
    for each in digits:
        number = number << 4 | _digit(each)
        if not 0 <= number <= _MAX_LONG:
            break
    if not digits or not 0 <= number <= _MAX_LONG:
        raise ValueError(f"{text!r:.100} is not a UUID: {part!r:.40} is not a number of base 16 in 63 bits")
    return number


def _digit(each: str) -> int:
    """The value of a digit of any script, and of letters of either width; -1 for a character that is none."""
    if each > "\uffff":
        return -1
    value = unicodedata.decimal(each, -1)
    if value < 0:
        plain = chr(ord(each) - 0xFEE0) if "\uff21" <= each <= "\uff46" else each
        value = int(plain, 16) if plain in "abcdefABCDEF" else -1
    return value
