"""``kubectl streamsapp report NAME``: one file for people who help, with the application, its pods, events, logs and
metrics, without secrets. Runs on the main thread."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.gathering import ReportPart
from streamsapp_operator.plugin.redaction import Redactor
from streamsapp_operator.plugin.session import CommandSession
from streamsapp_operator.plugin.text import size

_LINES = 5000
#: The most characters of one file, and of all of them together.
_MOST_OF_ONE, _MOST = 8 << 20, 96 << 20


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "report",
        "a file for support: status, events, pods, logs, metrics, without secrets",
        "Values of the Secrets that the application refers to, as far as you may read them, and all that looks like a "
        "secret are taken out; so is the code of spec.code.files. Look at it before you pass it on.",
        run,
    )
    parser.add_argument("--file", type=Path, metavar="PATH", help="default: NAME-report-TIME.tar.gz in this folder")
    parser.add_argument("--tail", type=int, default=_LINES, metavar="N", help=f"lines of each log; default: {_LINES}")


def run(options: argparse.Namespace, session: CommandSession) -> int:
    redactor = Redactor(session.cluster.secrets(options.name))
    files, missing = _bounded(session.cluster.gather(options.name, tail=options.tail), redactor)
    if missing:
        files.append(("missing.txt", "".join(f"{line}\n" for line in missing)))
    name = f"{options.name}-report-{session.now():%Y%m%dT%H%M%SZ}"
    path = options.file or Path(f"{name}.tar.gz")
    data = _archive(name, files, int(session.now().timestamp()))
    _write(path, data)
    if options.output == "json":
        session.print_json({"file": str(path), "bytes": len(data), "parts": len(files), "missing": missing})
        return 0
    session.print([
        f"{path}: {len(files)} files, {size(len(data))}, without secrets; look at it before you pass it on",
        *(f"  not there: {line}" for line in missing),
    ])  # fmt: skip
    return 0


def _bounded(parts: Iterable[ReportPart], redactor: Redactor) -> tuple[list[tuple[str, str]], list[str]]:
    """Returns the files without secrets, and a line for each part that is not there; nothing more is read once there is
    no room."""
    files: list[tuple[str, str]] = []
    missing: list[str] = []
    room = _MOST
    for each in parts:
        if room <= 0:
            missing.append(f"{each.name} and all after it: the report has {size(_MOST)}, which is the most; see --tail")
            break
        if each.missing is not None:
            missing.append(f"{each.name}: {redactor.text(each.missing)}")
            continue
        text = _shortened(each.name, _content(each, redactor), min(room, _MOST_OF_ONE))
        files.append((each.name, text))
        room -= len(text)
    return files, missing


def _shortened(name: str, text: str, most: int) -> str:
    """Returns the end of a log, and the beginning of everything else. Secrets were taken out before: what is left of
    one that is cut would not be known."""
    if len(text) <= most:
        return text
    cut = f"[{len(text) - most} characters are left out]"
    return f"{cut}\n{text[-most:]}" if name.endswith(".log") else f"{text[:most]}\n{cut}"


def _content(each: ReportPart, redactor: Redactor) -> str:
    content = each.content
    if isinstance(content, str) and each.name.endswith(".json"):
        try:
            content = json.loads(content)
        except (ValueError, RecursionError):
            return redactor.text(str(content))
    if isinstance(content, str):
        return redactor.text(content)
    # Once more as a text: a secret may be a key.
    return redactor.known(json.dumps(redactor.document(content), indent=1, ensure_ascii=False, default=str))


def _archive(name: str, files: Sequence[tuple[str, str]], at: int) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for path, text in files:
            data = text.encode("utf-8", errors="replace")
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mtime, member.mode = len(data), at, 0o600
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=at)


def _write(path: Path, data: bytes) -> None:
    """Writes a file that its user alone may read, and replaces none."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
    except OSError as error:
        raise PluginError(f"--file: {path} cannot be written: {error.strerror}") from error
